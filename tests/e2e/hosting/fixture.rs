//! A namespace with pods of the echo server, which says what it was started with and what it sees.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{eventually, kubectl, namespace, shared};
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(super) const IMAGE: &str = "ghcr.io/plimsoll/sandbox:dev";

/// Longest wait for anything that takes a second or two on an idle machine.
pub(super) const PATIENCE: Duration = Duration::from_mins(3);

/// One namespace.
pub(super) struct Fixture {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) pods: Api<Pod>,
}

impl Fixture {
    pub(super) async fn new() -> Result<Self> {
        let client = shared().await?.client().await?;
        let namespace = namespace(&client, "hosting").await?;
        let pods = Api::namespaced(client.clone(), &namespace);
        Ok(Self {
            client,
            namespace,
            pods,
        })
    }

    pub(super) async fn create<K>(&self, object: Value) -> Result<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let object = serde_json::from_value(object).context("read an object")?;
        api.create(&PostParams::default(), &object)
            .await
            .context("create an object")
    }

    pub(super) async fn secret(&self, name: &str, entries: &[(&str, &str)]) -> Result<Secret> {
        let data = entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        let data = data.collect::<std::collections::BTreeMap<_, _>>();
        self.create(json!({"metadata": {"name": name}, "data": data}))
            .await
    }

    /// A Deployment named `echo` of this pod spec, with a Service of that name in front of port
    /// `http`.
    pub(super) async fn deploy(&self, replicas: u32, spec: Value, port: u16) -> Result<()> {
        let labels = json!({"app": "echo"});
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        let deployment = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template});
        self.create::<Deployment>(json!({"metadata": {"name": "echo"}, "spec": deployment}))
            .await?;
        let ports = json!([{"port": port, "targetPort": "http"}]);
        let service =
            json!({"metadata": {"name": "echo"}, "spec": {"selector": labels, "ports": ports}});
        self.create::<Service>(service).await.map(drop)
    }

    /// The pods of the Deployment once exactly `count` exist and all are ready.
    pub(super) async fn ready(&self, replicas: usize) -> Result<Vec<Pod>> {
        eventually("all replicas are ready", PATIENCE, async || {
            let pods = self
                .pods
                .list(&ListParams::default().labels("app=echo"))
                .await?
                .items;
            ensure!(
                pods.len() == replicas && pods.iter().all(is_ready),
                "{}",
                describe(&pods)
            );
            Ok(pods)
        })
        .await
    }

    /// GET through the API server: `pods/NAME:PORT` or `services/NAME:PORT`.
    pub(super) async fn get(&self, target: &str, path: &str) -> Result<String> {
        let uri = format!("/api/v1/namespaces/{}/{target}/proxy{path}", self.namespace);
        let request = http_get(&uri)?;
        self.client
            .request_text(request)
            .await
            .with_context(|| format!("get {uri}"))
    }

    pub(super) async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        kubectl(&[&["-n", self.namespace.as_str()], arguments].concat()).await
    }

    /// `kubectl logs --follow`, under way.
    pub(super) async fn follow(&self, pod: &str) -> Result<tokio::process::Child> {
        let sandbox = shared().await?;
        let mut kubectl = tokio::process::Command::new(sandbox.kubectl());
        kubectl.env("KUBECONFIG", sandbox.kubeconfig()).args([
            "-n",
            &self.namespace,
            "logs",
            "--follow",
            pod,
        ]);
        kubectl
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("run kubectl")
    }

    pub(super) async fn status(&self, pod: &str) -> Result<Value> {
        let status = self
            .pods
            .get_status(pod)
            .await?
            .status
            .context("a pod has a status")?;
        Ok(serde_json::to_value(status)?)
    }
}

fn http_get(uri: &str) -> Result<http::Request<Vec<u8>>> {
    http::Request::get(uri)
        .body(Vec::new())
        .context("build a request")
}

pub(super) fn echo(arguments: &[&str]) -> Value {
    json!({
        "name": "echo",
        "image": IMAGE,
        "args": ([&["echo-server"], arguments].concat()),
        "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1},
    })
}

/// `container` with these fields of its own.
pub(super) fn with(mut container: Value, fields: Value) -> Value {
    if let (Some(container), Value::Object(fields)) = (container.as_object_mut(), fields) {
        container.extend(fields);
    }
    container
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

pub(super) fn describe(pods: &[Pod]) -> String {
    let lines: Vec<String> = pods
        .iter()
        .map(|pod| format!("{} {}", pod.name_any(), json!(pod.status)))
        .collect();
    lines.join("\n")
}

/// The process of a pod's only container.
pub(super) fn process(pod: &Pod) -> Result<u32> {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_deref())
        .unwrap_or_default();
    let id = statuses
        .first()
        .and_then(|status| status.container_id.as_deref())
        .context("no container id")?;
    id.strip_prefix("process://")
        .context("not a process")?
        .parse()
        .context("not a number")
}

pub(super) fn signal(name: &str, process: u32) -> Result<()> {
    let status = Command::new("kill")
        .args(["-s", name, &process.to_string()])
        .status()?;
    ensure!(status.success(), "kill -s {name} {process}");
    Ok(())
}

pub(super) fn runs(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

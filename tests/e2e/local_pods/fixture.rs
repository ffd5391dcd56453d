//! A namespace with pods of the echo server, which says what it was started with and what it sees.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use e2e::{Namespace, PATIENCE, eventually, is_ready, kubectl, shared};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

pub(super) const IMAGE: &str = "ghcr.io/plimsoll/sandbox:dev";

pub(super) struct Fixture(Namespace);

e2e::deref_to_namespace!(Fixture, 0);

impl Fixture {
    pub(super) async fn new() -> Result<Self> {
        let client = shared().await?.client().await?;
        Ok(Self(Namespace::new(client, "hosting").await?))
    }

    pub(super) async fn secret(&self, name: &str, entries: Value) -> Result<()> {
        self.create::<Secret>(json!({"metadata": {"name": name}, "stringData": entries}))
            .await?;
        Ok(())
    }

    /// A Deployment named `echo` of one such container, and returns its pod once that is ready.
    pub(super) async fn echo(&self, container: Value) -> Result<Pod> {
        self.deploy(1, json!({"containers": [container]}), 80)
            .await?;
        Ok(self.ready(1).await?.remove(0))
    }

    /// A Deployment named `echo` of this pod spec, with a Service of that name in front of port
    /// `http`.
    pub(super) async fn deploy(&self, replicas: u32, spec: Value, port: u16) -> Result<()> {
        let labels = json!({"app": "echo"});
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        let deployment = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template});
        self.make::<Deployment>("echo", deployment).await?;
        let ports = json!([{"port": port, "targetPort": "http"}]);
        let service =
            json!({"metadata": {"name": "echo"}, "spec": {"selector": labels, "ports": ports}});
        self.create::<Service>(service).await?;
        Ok(())
    }

    /// The pods of the Deployment once exactly `count` exist and all are ready.
    pub(super) async fn ready(&self, replicas: usize) -> Result<Vec<Pod>> {
        eventually("all replicas are ready", async || {
            let pods = self.pods_of("echo").await?;
            let are_ready = pods.len() == replicas && pods.iter().all(is_ready);
            ensure!(are_ready, "{}", describe(&pods));
            Ok(pods)
        })
        .await
    }

    pub(super) async fn kubectl(&self, arguments: &str) -> Result<String> {
        kubectl(&format!("-n {} {arguments}", self.namespace)).await
    }

    pub(super) async fn follow(&self, pod: &str) -> Result<Log> {
        let sandbox = shared().await?;
        let mut kubectl = Command::new(sandbox.kubectl())
            .env("KUBECONFIG", sandbox.kubeconfig())
            .args(["-n", &self.namespace, "logs", "--follow", pod])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = kubectl.stdout.take().context("no output")?;
        let lines = BufReader::new(output).lines();
        Ok(Log {
            _kubectl: kubectl,
            lines,
        })
    }

    pub(super) async fn status(&self, pod: &str) -> Result<Value> {
        Ok(self.get::<Pod>(pod).await?["status"].take())
    }
}

pub(super) struct Log {
    _kubectl: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Log {
    pub(super) async fn next(&mut self) -> Result<String> {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        line.context("no further line")??.context("the end")
    }
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

pub(super) fn describe(pods: &[Pod]) -> String {
    let lines: Vec<String> = pods
        .iter()
        .map(|pod| format!("{} {}", pod.name_any(), json!(pod.status)))
        .collect();
    lines.join("\n")
}

pub(super) fn runs(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

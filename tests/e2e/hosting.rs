//! Pods with an image of ours run as processes: `plimsoll/sandbox`, whose echo server says what it was started with and
//! what it sees.

#![allow(clippy::needless_pass_by_value, reason = "`json!` values read better without references")]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use e2e::{eventually, kubectl, namespace, shared};
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::ValidatingWebhookConfiguration,
        apps::v1::Deployment,
        core::v1::{ConfigMap, Pod, Secret, Service},
    },
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    time::timeout,
};

const IMAGE: &str = "ghcr.io/plimsoll/sandbox:dev";

/// Longest wait for anything that takes a second or two on an idle machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// One namespace.
struct Room {
    client: Client,
    namespace: String,
    pods: Api<Pod>,
}

impl Room {
    async fn new() -> Result<Self> {
        let client = shared().await?.client().await?;
        let namespace = namespace(&client, "hosting").await?;
        let pods = Api::namespaced(client.clone(), &namespace);
        let room = Self { client, namespace, pods };
        room.await_service_account().await?;
        Ok(room)
    }

    /// Pods are refused until their namespace has one.
    async fn await_service_account(&self) -> Result<()> {
        eventually("there is a default service account", PATIENCE, async || {
            kubectl(&["-n", &self.namespace, "get", "serviceaccount", "default"]).await
        })
        .await
        .map(drop)
    }

    async fn create<K>(&self, object: Value) -> Result<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let object = serde_json::from_value(object).context("read an object")?;
        api.create(&PostParams::default(), &object).await.context("create an object")
    }

    async fn secret(&self, name: &str, entries: &[(&str, &str)]) -> Result<Secret> {
        let data = entries.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        let data = data.collect::<std::collections::BTreeMap<_, _>>();
        self.create(json!({"metadata": {"name": name}, "data": data})).await
    }

    /// A Deployment named `echo` of this pod spec, with a Service of that name in front of port `http`.
    async fn deploy(&self, replicas: u32, spec: Value, port: u16) -> Result<()> {
        let labels = json!({"app": "echo"});
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        let deployment = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template});
        self.create::<Deployment>(json!({"metadata": {"name": "echo"}, "spec": deployment})).await?;
        let ports = json!([{"port": port, "targetPort": "http"}]);
        let service = json!({"metadata": {"name": "echo"}, "spec": {"selector": labels, "ports": ports}});
        self.create::<Service>(service).await.map(drop)
    }

    /// The pods of the Deployment once exactly so many exist and all are ready.
    async fn ready(&self, replicas: usize) -> Result<Vec<Pod>> {
        eventually("all replicas are ready", PATIENCE, async || {
            let pods = self.pods.list(&ListParams::default().labels("app=echo")).await?.items;
            ensure!(pods.len() == replicas && pods.iter().all(is_ready), "{}", describe(&pods));
            Ok(pods)
        })
        .await
    }

    /// GET through the API server: `pods/NAME:PORT` or `services/NAME:PORT`.
    async fn get(&self, target: &str, path: &str) -> Result<String> {
        let uri = format!("/api/v1/namespaces/{}/{target}/proxy{path}", self.namespace);
        let request = http_get(&uri)?;
        self.client.request_text(request).await.with_context(|| format!("get {uri}"))
    }

    async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        kubectl(&[&["-n", self.namespace.as_str()], arguments].concat()).await
    }

    /// `kubectl logs --follow`, under way.
    async fn follow(&self, pod: &str) -> Result<tokio::process::Child> {
        let sandbox = shared().await?;
        let mut kubectl = tokio::process::Command::new(sandbox.kubectl());
        kubectl.env("KUBECONFIG", sandbox.kubeconfig()).args(["-n", &self.namespace, "logs", "--follow", pod]);
        kubectl.stdout(Stdio::piped()).kill_on_drop(true).spawn().context("run kubectl")
    }

    async fn status(&self, pod: &str) -> Result<Value> {
        let status = self.pods.get_status(pod).await?.status.context("a pod has a status")?;
        Ok(serde_json::to_value(status)?)
    }
}

fn http_get(uri: &str) -> Result<http::Request<Vec<u8>>> {
    http::Request::get(uri).body(Vec::new()).context("build a request")
}

fn echo(arguments: &[&str]) -> Value {
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
fn with(mut container: Value, fields: Value) -> Value {
    if let (Some(container), Value::Object(fields)) = (container.as_object_mut(), fields) {
        container.extend(fields);
    }
    container
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn describe(pods: &[Pod]) -> String {
    let lines: Vec<String> = pods.iter().map(|pod| format!("{} {}", pod.name_any(), json!(pod.status))).collect();
    lines.join("\n")
}

/// The process of a pod's only container.
fn process(pod: &Pod) -> Result<u32> {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let id = statuses.first().and_then(|status| status.container_id.as_deref()).context("no container id")?;
    id.strip_prefix("process://").context("not a process")?.parse().context("not a number")
}

fn signal(name: &str, process: u32) -> Result<()> {
    let status = Command::new("kill").args(["-s", name, &process.to_string()]).status()?;
    ensure!(status.success(), "kill -s {name} {process}");
    Ok(())
}

fn runs(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

#[tokio::test]
async fn replicas_share_a_port_and_are_reached_by_pod_and_by_service() -> Result<()> {
    let room = Room::new().await?;
    room.deploy(2, json!({"containers": [echo(&["--address=:8080"])]}), 80).await?;
    let pods = room.ready(2).await?;
    for pod in &pods {
        let answer: Value = serde_json::from_str(&room.get(&format!("pods/{}:8080", pod.name_any()), "/").await?)?;
        assert_eq!(answer["environment"]["POD"], pod.name_any());
    }
    eventually("the service leads to its pods", PATIENCE, async || {
        let answer: Value = serde_json::from_str(&room.get("services/echo:80", "/").await?)?;
        let pod = answer["environment"]["POD"].as_str().unwrap_or_default();
        ensure!(pods.iter().any(|known| known.name_any() == pod), "answered by {pod:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_pod_acts_as_its_service_account() -> Result<()> {
    let room = Room::new().await?;
    room.kubectl(&["create", "serviceaccount", "robot"]).await?;
    room.deploy(1, json!({"serviceAccountName": "robot", "containers": [echo(&[])]}), 80).await?;
    let pod = room.ready(1).await?.remove(0).name_any();
    let user = room.get(&format!("pods/{pod}:8080"), "/whoami").await?;
    assert_eq!(user, format!("system:serviceaccount:{}:robot", room.namespace));
    Ok(())
}

#[tokio::test]
async fn logs_are_printed_and_followed_over_a_restart() -> Result<()> {
    let room = Room::new().await?;
    room.deploy(1, json!({"containers": [echo(&[])]}), 80).await?;
    let pod = room.ready(1).await?.remove(0);
    eventually("the log is there", PATIENCE, async || {
        let log = room.kubectl(&["logs", &pod.name_any()]).await?;
        ensure!(log.starts_with("listening on 127."), "{log}");
        Ok(())
    })
    .await?;
    let mut follow = room.follow(&pod.name_any()).await?;
    let mut lines = BufReader::new(follow.stdout.take().context("no output")?).lines();
    let mut next = async || timeout(PATIENCE, lines.next_line()).await.context("no further line")??.context("the end");
    ensure!(next().await?.starts_with("listening on 127."));
    signal("TERM", process(&pod)?)?;
    assert_eq!(next().await?, "asked to end");
    ensure!(next().await?.starts_with("listening on 127."));
    follow.kill().await?;
    Ok(())
}

#[tokio::test]
async fn a_mounted_secret_follows_its_changes() -> Result<()> {
    let room = Room::new().await?;
    let container = with(
        echo(&["--file=/etc/settings/mode"]),
        json!({"volumeMounts": [{"name": "settings", "mountPath": "/etc/settings"}]}),
    );
    let volumes = json!([{"name": "settings", "secret": {"secretName": "settings"}}]);
    room.deploy(1, json!({"containers": [container], "volumes": volumes}), 80).await?;
    eventually("the pod waits for its secret", PATIENCE, async || {
        let pods = room.pods.list(&ListParams::default().labels("app=echo")).await?.items;
        let seen = describe(&pods);
        ensure!(seen.contains("secret \\\"settings\\\" not found"), "{seen}");
        Ok(())
    })
    .await?;
    room.secret("settings", &[("mode", "fast")]).await?;
    let pod = format!("pods/{}:8080", room.ready(1).await?.remove(0).name_any());
    assert_eq!(room.get(&pod, "/file").await?, "fast");
    let secrets: Api<Secret> = Api::namespaced(room.client.clone(), &room.namespace);
    let patch = Patch::Merge(json!({"data": {"mode": ByteString(b"slow".to_vec())}}));
    secrets.patch("settings", &PatchParams::default(), &patch).await?;
    eventually("the change arrives", PATIENCE, async || {
        let seen = room.get(&pod, "/file").await?;
        ensure!(seen == "slow", "{seen:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_killed_process_starts_again() -> Result<()> {
    let room = Room::new().await?;
    room.deploy(1, json!({"containers": [echo(&[])]}), 80).await?;
    let pod = room.ready(1).await?.remove(0);
    let first = process(&pod)?;
    signal("KILL", first)?;
    eventually("the container has restarted", PATIENCE, async || {
        let status = room.status(&pod.name_any()).await?["containerStatuses"][0].clone();
        ensure!(status["restartCount"] == 1 && status["ready"] == true, "{status}");
        let last = &status["lastState"]["terminated"];
        ensure!(last["exitCode"] == 137 && last["reason"] == "Error", "{status}");
        Ok(())
    })
    .await?;
    let previous = room.kubectl(&["logs", &pod.name_any(), "--previous"]).await?;
    ensure!(previous.contains(&format!("\"process\":{first}}}")), "{previous}");
    Ok(())
}

#[tokio::test]
async fn a_container_that_keeps_failing_waits_longer_and_longer() -> Result<()> {
    let room = Room::new().await?;
    let spec = json!({"containers": [{"name": "echo", "image": IMAGE, "args": ["no-such-command"]}]});
    room.create::<Pod>(json!({"metadata": {"name": "broken"}, "spec": spec})).await?;
    eventually("the pod is in a crash loop", PATIENCE, async || {
        let status = room.status("broken").await?["containerStatuses"][0].clone();
        let waiting = &status["state"]["waiting"];
        ensure!(waiting["reason"] == "CrashLoopBackOff" && status["restartCount"].as_u64() >= Some(1), "{status}");
        ensure!(status["lastState"]["terminated"]["exitCode"] == 2, "{status}");
        Ok(())
    })
    .await?;
    eventually("the log says why", PATIENCE, async || {
        let log = room.kubectl(&["logs", "broken"]).await?;
        ensure!(log.contains("no-such-command"), "{log}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_failed_liveness_probe_restarts_the_container() -> Result<()> {
    let room = Room::new().await?;
    let probe = json!({"httpGet": {"path": "/absent", "port": "http"}, "periodSeconds": 1, "failureThreshold": 1});
    room.deploy(1, json!({"containers": [with(echo(&[]), json!({"livenessProbe": probe}))]}), 80).await?;
    let pod = eventually("the container has restarted", PATIENCE, async || {
        let pods = room.pods.list(&ListParams::default().labels("app=echo")).await?.items;
        let pod = pods.first().context("no pod yet")?.name_any();
        let status = room.status(&pod).await?["containerStatuses"][0].clone();
        ensure!(status["restartCount"].as_u64() >= Some(1), "{status}");
        Ok(pod)
    })
    .await?;
    eventually("events say why", PATIENCE, async || {
        let described = room.kubectl(&["describe", "pod", &pod]).await?;
        let why = "liveness probe of container echo failed: HTTP probe failed with statuscode: 404";
        ensure!(described.contains(why), "{described}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn probes_of_every_kind_and_a_hook_before_the_end() -> Result<()> {
    let room = Room::new().await?;
    let container = with(
        echo(&[]),
        json!({
            "startupProbe": {"exec": {"command": ["/sandbox", "--version"]}, "periodSeconds": 1},
            "livenessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 1},
            "lifecycle": {"preStop": {"httpGet": {"path": "/stop", "port": "http"}}},
        }),
    );
    let foreign = json!({"name": "foreign", "image": "registry.k8s.io/pause:3.10"});
    room.deploy(1, json!({"containers": [container, foreign]}), 80).await?;
    let pod = room.ready(1).await?.remove(0).name_any();
    let mut follow = room.follow(&pod).await?;
    let mut lines = BufReader::new(follow.stdout.take().context("no output")?).lines();
    let mut next = async || timeout(PATIENCE, lines.next_line()).await.context("no further line")??.context("the end");
    ensure!(next().await?.starts_with("listening on 127."));
    room.pods.delete(&pod, &DeleteParams::default()).await?;
    assert_eq!(next().await?, "about to be stopped");
    assert_eq!(next().await?, "asked to end");
    follow.kill().await?;
    Ok(())
}

#[tokio::test]
async fn a_sidecar_starts_before_the_others_and_ends_after_them() -> Result<()> {
    let room = Room::new().await?;
    let sidecar = with(echo(&[]), json!({"restartPolicy": "Always"}));
    let main = json!({"name": "main", "image": IMAGE, "args": ["--version"]});
    let spec = json!({"restartPolicy": "Never", "initContainers": [sidecar], "containers": [main]});
    room.create::<Pod>(json!({"metadata": {"name": "pair"}, "spec": spec})).await?;
    eventually("the pod has succeeded", PATIENCE, async || {
        let status = room.status("pair").await?;
        ensure!(status["phase"] == "Succeeded", "{status}");
        let ended = |list: &str, time: &str| status[list][0]["state"]["terminated"][time].to_string();
        let (sidecar, main) = ("initContainerStatuses", "containerStatuses");
        ensure!(ended(sidecar, "startedAt") <= ended(main, "startedAt"), "{status}");
        ensure!(ended(sidecar, "finishedAt") >= ended(main, "finishedAt"), "{status}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_resize_is_reported_and_restarts_the_process_only_where_asked() -> Result<()> {
    let room = Room::new().await?;
    let container = with(
        echo(&[]),
        json!({
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
        }),
    );
    room.deploy(1, json!({"containers": [container]}), 80).await?;
    let pod = room.ready(1).await?.remove(0).name_any();
    for (resource, value, restarts) in [("cpu", "20m", 0), ("memory", "32Mi", 1)] {
        let containers = json!([{"name": "echo", "resources": {"requests": {resource: value}}}]);
        let patch = json!({"spec": {"containers": containers}}).to_string();
        room.kubectl(&["patch", "pod", &pod, "--subresource", "resize", "--patch", &patch]).await?;
        eventually("the resize is done", PATIENCE, async || {
            let status = room.status(&pod).await?["containerStatuses"][0].clone();
            ensure!(status["resources"]["requests"][resource] == value, "{status}");
            ensure!(status["allocatedResources"][resource] == value, "{status}");
            ensure!(status["restartCount"] == restarts && status["ready"] == true, "{status}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_pod_that_need_not_restart_ends_after_its_init_containers() -> Result<()> {
    let room = Room::new().await?;
    let run = |name: &str| json!({"name": name, "image": IMAGE, "args": ["--version"]});
    let spec = json!({"restartPolicy": "Never", "initContainers": [run("first")], "containers": [run("second")]});
    room.create::<Pod>(json!({"metadata": {"name": "once"}, "spec": spec})).await?;
    eventually("the pod has succeeded", PATIENCE, async || {
        let status = room.status("once").await?;
        ensure!(status["phase"] == "Succeeded", "{status}");
        let started = |list: &str| status[list][0]["state"]["terminated"]["startedAt"].to_string();
        ensure!(started("initContainerStatuses") <= started("containerStatuses"), "{status}");
        Ok(())
    })
    .await?;
    let log = room.kubectl(&["logs", "once", "-c", "first"]).await?;
    ensure!(log.starts_with("sandbox "), "{log}");
    room.pods.delete("once", &DeleteParams::default()).await?;
    eventually("the pod is gone", PATIENCE, async || {
        ensure!(room.pods.get_opt("once").await?.is_none(), "it is still there");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_rollout_replaces_the_processes() -> Result<()> {
    let room = Room::new().await?;
    room.deploy(2, json!({"containers": [echo(&[])], "terminationGracePeriodSeconds": 5}), 80).await?;
    let before = room.ready(2).await?.iter().map(process).collect::<Result<Vec<u32>>>()?;
    assert!(before.iter().copied().all(runs));
    room.kubectl(&["rollout", "restart", "deployment/echo"]).await?;
    room.kubectl(&["rollout", "status", "deployment/echo", "--timeout=180s"]).await?;
    let after = room.ready(2).await?.iter().map(process).collect::<Result<Vec<u32>>>()?;
    assert!(after.iter().all(|process| !before.contains(process)), "{before:?} {after:?}");
    assert!(after.iter().copied().all(runs));
    eventually("the old processes are gone", PATIENCE, async || {
        ensure!(!before.iter().copied().any(runs), "{before:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_webhook_is_asked_through_its_service() -> Result<()> {
    let room = Room::new().await?;
    let name = format!("echo.{}.svc", room.namespace);
    let made = rcgen::generate_simple_self_signed(vec![name])?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    room.secret("tls", &[("tls.crt", &certificate), ("tls.key", &key)]).await?;
    let container = with(
        echo(&["--tls-folder=/tls"]),
        json!({
            "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
            "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTPS"}, "periodSeconds": 1},
        }),
    );
    let volumes = json!([{"name": "tls", "secret": {"secretName": "tls"}}]);
    room.deploy(1, json!({"containers": [container], "volumes": volumes}), 443).await?;
    let pod = room.ready(1).await?.remove(0).name_any();
    let service = json!({"namespace": room.namespace, "name": "echo", "path": "/deny"});
    let configuration = json!({"metadata": {"name": room.namespace}, "webhooks": [{
        "name": "deny.plimsoll.test",
        "clientConfig": {"service": service, "caBundle": ByteString(certificate.into_bytes())},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": room.namespace}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
    }]});
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(room.client.clone());
    configurations.create(&PostParams::default(), &serde_json::from_value(configuration)?).await?;
    let outcome = eventually("the webhook denies", PATIENCE, async || {
        match room.create::<ConfigMap>(json!({"metadata": {"generateName": "refused-"}})).await {
            Ok(_) => bail!("it was accepted"),
            Err(error) => Ok(format!("{error:#}")),
        }
    })
    .await;
    configurations.delete(&room.namespace, &DeleteParams::default()).await?;
    let message = outcome?;
    ensure!(message.contains(&format!("denied by {pod}")), "{message}");
    Ok(())
}

#[tokio::test]
async fn usage_is_that_of_the_process() -> Result<()> {
    let room = Room::new().await?;
    room.deploy(1, json!({"containers": [echo(&[])]}), 80).await?;
    let pod = room.ready(1).await?.remove(0);
    let resident = fs::read_to_string(format!("/proc/{}/statm", process(&pod)?))?;
    ensure!(resident.split(' ').nth(1).is_some_and(|pages| pages != "0"), "{resident}");
    eventually("the pod says what it uses", PATIENCE, async || {
        let annotations = room.pods.get(&pod.name_any()).await?.annotations().clone();
        let memory = annotations.get("kwok.x-k8s.io/usage-memory").context("no usage yet")?;
        let kibibytes: u64 = memory.strip_suffix("Ki").context("not in kibibytes")?.parse()?;
        ensure!((1024..1024 * 1024).contains(&kibibytes), "{memory}");
        Ok(())
    })
    .await
}

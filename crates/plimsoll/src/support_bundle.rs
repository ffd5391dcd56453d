//! A folder with everything that helps to find a fault, without Secrets.

mod redaction;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use futures::AsyncReadExt as _;
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::check::{self, noted, unread};
use crate::cluster::{Cluster, block_on};
use crate::failure::Outcome;
use crate::installation::{InstallationArgs, SELECTOR};

const MAX_OBJECTS: u32 = 1_000;
const MAX_PODS: usize = 32;
const LOG_LINES: i64 = 2_000;
/// Most bytes of a log, and of the metrics of a pod.
const MAX_BYTES: u64 = 1 << 20;

/// Paths of the objects of the whole cluster. The file has the name of the last part, or the one
/// before `=`.
const CLUSTER: [&str; 9] = [
    "autoscaling.k8s.io/v1/verticalpodautoscalers",
    "plimsoll.dev/v1alpha1/sizingpolicies",
    "plimsoll.dev/v1alpha1/clustersizingpolicies",
    "autoscaling.crane.io/v1alpha1/effectivehorizontalpodautoscalers",
    "prediction.crane.io/v1alpha1/timeseriespredictions",
    "apiregistration.k8s.io/v1/apiservices",
    "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "leases-kube-system=coordination.k8s.io/v1/namespaces/kube-system/leases",
    "nodes-metrics=metrics.k8s.io/v1beta1/nodes",
];
/// Objects of the suite's namespace: the path before the namespace, and the plural; of those in the
/// core group only the ones with the suite's label are taken, but all Events.
const OWN: [(&str, &str); 8] = [
    ("/apis/apps/v1", "deployments"),
    ("/apis/apps/v1", "replicasets"),
    ("/api/v1", "pods"),
    ("/api/v1", "services"),
    ("/apis/discovery.k8s.io/v1", "endpointslices"),
    ("/api/v1", "configmaps"),
    ("/apis/coordination.k8s.io/v1", "leases"),
    ("/api/v1", "events"),
];

#[derive(Clone, Debug, Args)]
pub(crate) struct BundleArgs {
    #[command(flatten)]
    pub(crate) installation: InstallationArgs,
    /// Folder to create.
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
}

struct Bundle {
    folder: PathBuf,
    files: Vec<(String, usize)>,
    missing: Vec<String>,
}

pub(crate) fn run(args: &BundleArgs) -> anyhow::Result<Outcome> {
    let bundle = block_on(collect(args))?;
    let mut out = std::io::stdout().lock();
    for (name, size) in &bundle.files {
        writeln!(out, "{}  {size} bytes", bundle.folder.join(name).display())?;
    }
    for reason in &bundle.missing {
        writeln!(out, "left out: {reason}")?;
    }
    writeln!(
        out,
        "Secrets were not read into it, and values that look like credentials are masked. \
         Object names, labels, images and log lines are in it: read it before you pass it on."
    )?;
    Ok(Outcome::of(bundle.missing.is_empty()))
}

async fn collect(args: &BundleArgs) -> anyhow::Result<Bundle> {
    let cluster = args.installation.cluster.connect().await?;
    let namespace = &args.installation.system_namespace;
    let version = cluster.version().await?;
    let mut bundle = Bundle::create(&args.output)?;
    let versions = json!({
        "plimsoll": env!("CARGO_PKG_VERSION"),
        "kubernetes": version.git_version,
        "time": jiff::Timestamp::now().to_string(),
        "systemNamespace": namespace,
        "contextNamespace": cluster.namespace,
    });
    bundle.write("versions.json", &format!("{versions:#}\n"))?;
    let findings = check::findings(&cluster, namespace).await?;
    bundle.write("check.txt", &redaction::text(&findings))?;
    bundle.objects(&cluster, namespace).await?;
    bundle.pods(&cluster, namespace).await?;
    Ok(bundle)
}

#[cfg(unix)]
fn create_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(folder)
}

/// On Windows a folder below the user's own is the user's alone.
#[cfg(not(unix))]
fn create_private(folder: &Path) -> std::io::Result<()> {
    fs::create_dir(folder)
}

impl Bundle {
    /// Creates the folder, for this user only.
    fn create(folder: &Path) -> anyhow::Result<Self> {
        let shown = folder.display();
        let is_new = !folder.exists();
        ensure!(is_new, "{shown} exists: name a new folder with --output");
        let created = create_private(folder);
        created.with_context(|| format!("cannot create {shown}"))?;
        Ok(Self {
            folder: folder.to_owned(),
            files: Vec::new(),
            missing: Vec::new(),
        })
    }

    fn write(&mut self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        self.files.push((name.to_owned(), text.len()));
        Ok(())
    }

    async fn objects(&mut self, cluster: &Cluster, namespace: &str) -> anyhow::Result<()> {
        for text in CLUSTER {
            let last = text.rsplit('/').next().unwrap_or_default();
            let (name, path) = text.split_once('=').unwrap_or((last, text));
            self.list(cluster, name, &format!("/apis/{path}"), "")
                .await?;
        }
        for (prefix, name) in OWN {
            let path = format!("{prefix}/namespaces/{namespace}/{name}");
            let is_labelled = prefix == "/api/v1" && name != "events";
            let selector = if is_labelled { SELECTOR } else { "" };
            self.list(cluster, name, &path, selector).await?;
        }
        Ok(())
    }

    async fn list(
        &mut self,
        cluster: &Cluster,
        name: &str,
        path: &str,
        selector: &str,
    ) -> anyhow::Result<()> {
        let selector = selector.replace('=', "%3D");
        let path = format!("{path}?limit={MAX_OBJECTS}&labelSelector={selector}");
        let list = cluster.get::<Value>(&path).await.map_err(unread(name));
        let Some(mut list) = noted(&mut self.missing, list) else {
            return Ok(());
        };
        let next = list["metadata"]["continue"].as_str();
        if next.is_some_and(|it| !it.is_empty()) {
            let reason = format!("{name} after the first {MAX_OBJECTS}");
            self.missing.push(reason);
        }
        redaction::object(&mut list);
        let text = serde_yaml_ng::to_string(&list)?;
        self.write(&format!("{name}.yaml"), &text)
    }

    async fn pods(&mut self, cluster: &Cluster, namespace: &str) -> anyhow::Result<()> {
        let api = cluster.within::<Pod>(namespace);
        let pods = api.list(&ListParams::default().labels(SELECTOR)).await;
        let Some(pods) = noted(&mut self.missing, pods.map_err(unread("pods"))) else {
            return Ok(());
        };
        let pods = pods.items;
        if pods.len() > MAX_PODS {
            let reason = format!("logs of {} pods after the first {MAX_PODS}", pods.len());
            self.missing.push(reason);
        }
        for pod in pods.iter().take(MAX_PODS) {
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            for container in containers {
                self.log(&api, &pod.name_any(), &container.name).await?;
            }
            if let Some(port) = metrics_port(pod) {
                self.metrics(cluster, namespace, &pod.name_any(), port)
                    .await?;
            }
        }
        Ok(())
    }

    async fn log(&mut self, api: &Api<Pod>, pod: &str, container: &str) -> anyhow::Result<()> {
        let params = LogParams {
            container: Some(container.to_owned()),
            tail_lines: Some(LOG_LINES),
            limit_bytes: Some(MAX_BYTES as i64),
            timestamps: true,
            ..LogParams::default()
        };
        let subject = format!("the log of {pod}/{container}");
        let log = api.logs(pod, &params).await.map_err(unread(&subject));
        let Some(log) = noted(&mut self.missing, log) else {
            return Ok(());
        };
        let text = redaction::text(&log);
        self.write(&format!("log-{pod}-{container}.txt"), &text)
    }

    async fn metrics(
        &mut self,
        cluster: &Cluster,
        namespace: &str,
        pod: &str,
        port: i32,
    ) -> anyhow::Result<()> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy/metrics");
        let request = Request::get(path).body(Vec::new())?;
        let subject = format!("the metrics of {pod}");
        let stream = cluster.client.request_stream(request).await;
        let Some(stream) = noted(&mut self.missing, stream.map_err(unread(&subject))) else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        // A broken connection leaves what has arrived.
        let _ = Box::pin(stream)
            .take(MAX_BYTES)
            .read_to_end(&mut bytes)
            .await;
        let text = redaction::text(&String::from_utf8_lossy(&bytes));
        self.write(&format!("metrics-{pod}.txt"), &text)
    }
}

/// The port of `/metrics`, by the annotation that Prometheus reads.
fn metrics_port(pod: &Pod) -> Option<i32> {
    pod.annotations().get("prometheus.io/port")?.parse().ok()
}

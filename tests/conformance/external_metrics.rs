//! Usage as external metrics, as upstream's suite `recommender-externalmetrics` needs it: an adapter with
//! upstream's own rules, and made-up usage of all containers in the Prometheus that it reads.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::Namespace;
use e2e::deployment::{deploy, prometheus_variables, system};
use e2e::manifests::objects_in;
use e2e::remote_write::Receiver;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use sandbox::Sandbox;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

pub(crate) const ARGUMENTS: [&str; 3] = [
    "--use-external-metrics=true",
    "--external-metrics-cpu-metric=cpu",
    "--external-metrics-memory-metric=mem",
];
const ADAPTER: &str = "app.kubernetes.io/name=adapter";
const RULES: &str = "plimsoll-adapter-rules";
/// Time between two samples; upstream's is 30 s.
const SAMPLED_EVERY: Duration = Duration::from_secs(5);
/// Usage as upstream makes it up: mean and standard deviation, in cores and in bytes.
const CPU: [f64; 2] = [1.0, 0.15];
const MEMORY: [f64; 2] = [128.0 * MIB, 15.0 * MIB];
const MIB: f64 = 1_048_576.0;
/// Samples differ from the mean by these standard deviations, in turn.
const DEVIATIONS: [f64; 3] = [-1.0, 0.0, 1.0];

/// Deploys our adapter, with the rules in upstream's manifest of prometheus-adapter.
pub(crate) async fn deploy_adapter(sandbox: &Sandbox, manifest: &Path) -> Result<()> {
    prometheus_variables(sandbox, &["ADAPTER"]).await?;
    deploy(sandbox, "tests/conformance/external-metrics", ADAPTER).await?;
    let client = sandbox.client().await?;
    let rules = json!({"data": {"config.yaml": rules(manifest)?}});
    system(&client).patch::<ConfigMap>(RULES, rules).await?;
    let all = Namespace::cluster(client);
    let name = json!({"name": "external-metrics-reader"});
    all.create::<ClusterRole>(json!({
        "metadata": name,
        "rules": [{
            "apiGroups": ["external.metrics.k8s.io"], "resources": ["*"], "verbs": ["get", "list"],
        }],
    }))
    .await?;
    all.create::<ClusterRoleBinding>(json!({
        "metadata": name,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name["name"],
        },
        "subjects": [{
            "kind": "ServiceAccount", "name": "vpa-recommender", "namespace": "kube-system",
        }],
    }))
    .await?;
    Ok(())
}

/// The rules in the `ConfigMap` of a manifest of prometheus-adapter.
fn rules(manifest: &Path) -> Result<String> {
    let objects = objects_in(manifest)?;
    let mut rules = objects
        .iter()
        .filter_map(|object| object["data"]["config.yaml"].as_str());
    let rules = rules.next().map(str::to_owned);
    rules.with_context(|| format!("{}: it has no rules", manifest.display()))
}

/// Writes made-up usage of all containers into Prometheus, until it is dropped.
pub(crate) async fn write_usage(sandbox: &Sandbox) -> Result<Infallible> {
    let pods: Api<Pod> = Api::all(sandbox.client().await?);
    let receiver = Receiver::of(sandbox)?;
    let mut ticks = interval(SAMPLED_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut deviations = DEVIATIONS.into_iter().cycle();
    loop {
        ticks.tick().await;
        let deviations = deviations.next().unwrap_or_default();
        let now = Timestamp::now().as_second();
        for pod in pods.list(&ListParams::default()).await? {
            for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
                let labels = labels(&pod, &container.name);
                for (metric, [mean, deviation]) in [("cpu", CPU), ("mem", MEMORY)] {
                    let sample = (now, mean + deviations * deviation);
                    receiver
                        .write(metric, &labels, [sample].into_iter())
                        .await?;
                }
            }
        }
    }
}

/// Labels of the usage of a container: its names, and the labels of its pod that are names in Prometheus.
fn labels<'a>(pod: &'a Pod, container: &'a str) -> Vec<(&'a str, &'a str)> {
    let own = pod.labels().iter();
    let own = own.map(|(name, value)| (name.as_str(), value.as_str()));
    let is_name = |name: &str| !name.contains(['.', '/', '-']);
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let names = [
        ("namespace", namespace),
        ("kubernetes_namespace", namespace),
        ("pod", name),
        ("kubernetes_pod_name", name),
        ("name", container),
        ("container", container),
    ];
    own.filter(|(name, _)| is_name(name)).chain(names).collect()
}

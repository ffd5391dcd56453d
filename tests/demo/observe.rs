//! The current state of the demonstration's workloads in the cluster.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use api::pod_metrics::{PodMetrics, Usage};
use api::vpa::VerticalPodAutoscaler;
use e2e::{is_available, requests_in_effect};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::Request;
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::report::{Amounts, Row, SizedPod};

/// The namespace of `workloads.yaml`.
pub(crate) const NAMESPACE: &str = "shop";
/// The workloads of `workloads.yaml` that are sized; each has one container, a label `app`, and a
/// VPA of its own name.
pub(crate) const WORKLOADS: [&str; 3] = ["web", "worker", "cache"];

/// Annotation of pods that the webhook sized.
const SIZED_BY_WEBHOOK: &str = "vpaUpdates";

/// One row per workload, in the order of [`WORKLOADS`].
pub(crate) async fn rows(client: &Client) -> Result<Vec<Row>> {
    let all = ListParams::default();
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE)
        .list(&all)
        .await
        .context("list pods")?;
    let autoscalers = Api::<VerticalPodAutoscaler>::namespaced(client.clone(), NAMESPACE)
        .list(&all)
        .await;
    let autoscalers = autoscalers.context("list VPAs")?;
    // metrics-server answers only after its second scrape; until then there is nothing to show, and
    // nothing wrong.
    let usage = metrics::<PodMetrics>(client, &format!("namespaces/{NAMESPACE}/pods")).await;
    let usage = usage_per_pod(&usage.unwrap_or_default());
    Ok(WORKLOADS
        .iter()
        .map(|name| row(name, &pods.items, &autoscalers.items, &usage))
        .collect())
}

pub(crate) async fn metrics<K: DeserializeOwned>(client: &Client, path: &str) -> Result<Vec<K>> {
    #[derive(Deserialize)]
    struct List<K> {
        items: Vec<K>,
    }
    let path = format!("/apis/metrics.k8s.io/v1beta1/{path}");
    let request = Request::new(path).list(&ListParams::default())?;
    Ok(client.request::<List<K>>(request).await?.items)
}

fn row(
    name: &str,
    pods: &[Pod],
    autoscalers: &[VerticalPodAutoscaler],
    usage: &BTreeMap<String, Amounts>,
) -> Row {
    let pods: Vec<&Pod> = pods
        .iter()
        .filter(|pod| pod.labels().get("app").is_some_and(|app| app == name))
        .collect();
    let used: Vec<Amounts> = pods
        .iter()
        .filter_map(|pod| usage.get(&pod.name_any()).copied())
        .collect();
    let autoscaler = autoscalers
        .iter()
        .find(|autoscaler| autoscaler.name_any() == name);
    Row {
        name: name.to_owned(),
        pods: pods.len(),
        usage: mean(&used),
        request: pods
            .first()
            .and_then(|pod| request(pod))
            .unwrap_or_default(),
        target: autoscaler.and_then(target),
    }
}

fn usage_per_pod(metrics: &[PodMetrics]) -> BTreeMap<String, Amounts> {
    let entry = |pod: &PodMetrics| {
        Some((
            pod.metadata.name.clone()?,
            amounts(&pod.containers.first()?.usage)?,
        ))
    };
    metrics.iter().filter_map(entry).collect()
}

fn mean(amounts: &[Amounts]) -> Option<Amounts> {
    let count = amounts.len() as f64;
    let sum = |part: fn(&Amounts) -> f64| amounts.iter().map(part).sum::<f64>();
    (!amounts.is_empty()).then(|| Amounts {
        cpu_millicores: sum(|one| one.cpu_millicores) / count,
        memory_bytes: sum(|one| one.memory_bytes) / count,
    })
}

/// The pods of the workloads that are ready, by name.
pub(crate) async fn pods(pods: &Api<Pod>) -> Result<Vec<SizedPod>> {
    let list = pods
        .list(&ListParams::default())
        .await
        .context("list pods")?;
    let mut pods: Vec<SizedPod> = list
        .items
        .iter()
        .filter(|pod| is_available(pod))
        .filter_map(sized)
        .collect();
    pods.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(pods)
}

fn sized(pod: &Pod) -> Option<SizedPod> {
    let workload = pod
        .labels()
        .get("app")
        .filter(|app| WORKLOADS.contains(&app.as_str()))?
        .clone();
    Some(SizedPod {
        workload,
        name: pod.name_any(),
        uid: pod.uid()?,
        request: request(pod)?,
        sized_by_webhook: pod.annotations().contains_key(SIZED_BY_WEBHOOK),
    })
}

/// Effective request of the pod's only container, as its kubelet reports it.
pub(crate) fn request(pod: &Pod) -> Option<Amounts> {
    listed(requests_in_effect(pod)?)
}

/// Target, lower and upper bound of the workload's only container.
fn recommended(autoscaler: &VerticalPodAutoscaler) -> Option<[Amounts; 3]> {
    let recommendation = autoscaler.status.as_ref()?.recommendation.as_ref()?;
    let only = recommendation.containers.first()?;
    Some([
        listed(&only.target)?,
        listed(&only.lower_bound)?,
        listed(&only.upper_bound)?,
    ])
}

pub(crate) fn target(autoscaler: &VerticalPodAutoscaler) -> Option<Amounts> {
    recommended(autoscaler).map(|[target, ..]| target)
}

pub(crate) fn bounds(autoscaler: &VerticalPodAutoscaler) -> Option<(Amounts, Amounts)> {
    recommended(autoscaler).map(|[_, lower, upper]| (lower, upper))
}

/// CPU and memory of a list of resources. Its JSON has the shape of a usage.
fn listed(resources: &impl Serialize) -> Option<Amounts> {
    amounts(&serde_json::from_value(serde_json::to_value(resources).ok()?).ok()?)
}

pub(crate) fn millicores(cpu: &Value) -> Option<f64> {
    let usage: Usage = serde_json::from_value(json!({ "cpu": cpu })).ok()?;
    Some(usage.cpu?.milli_value() as f64)
}

fn amounts(usage: &Usage) -> Option<Amounts> {
    let (cpu, memory) = (usage.cpu.as_ref()?, usage.memory.as_ref()?);
    Some(Amounts {
        cpu_millicores: cpu.milli_value() as f64,
        memory_bytes: memory.value() as f64,
    })
}

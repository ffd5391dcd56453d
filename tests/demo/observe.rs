//! What the cluster shows of the demonstration's workloads at this moment.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use api::metrics::{PodMetrics, Usage};
use api::vpa::VerticalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use crate::report::{Amounts, Row};

/// The namespace of `workloads.yaml`.
pub(crate) const NAMESPACE: &str = "shop";
/// The workloads of `workloads.yaml`; each has one container, a label `app`, and a VPA of its own name.
pub(crate) const WORKLOADS: [&str; 3] = ["web", "worker", "cache"];

/// One row per workload, in the order of [`WORKLOADS`].
pub(crate) async fn rows(client: &Client) -> Result<Vec<Row>> {
    let all = ListParams::default();
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE).list(&all).await.context("list pods")?;
    let autoscalers = Api::<VerticalPodAutoscaler>::namespaced(client.clone(), NAMESPACE).list(&all).await;
    let autoscalers = autoscalers.context("list VPAs")?;
    // metrics-server answers only after its second scrape; until then there is nothing to show, and nothing wrong.
    let usage = Api::<PodMetrics>::namespaced(client.clone(), NAMESPACE).list(&all).await.map(|list| list.items);
    let usage = usage_per_pod(&usage.unwrap_or_default());
    Ok(WORKLOADS.iter().map(|name| row(name, &pods.items, &autoscalers.items, &usage)).collect())
}

fn row(name: &str, pods: &[Pod], autoscalers: &[VerticalPodAutoscaler], usage: &BTreeMap<String, Amounts>) -> Row {
    let pods: Vec<&Pod> = pods.iter().filter(|pod| pod.labels().get("app").is_some_and(|app| app == name)).collect();
    let used: Vec<Amounts> = pods.iter().filter_map(|pod| usage.get(&pod.name_any()).copied()).collect();
    let autoscaler = autoscalers.iter().find(|autoscaler| autoscaler.name_any() == name);
    Row {
        name: name.to_owned(),
        pods: pods.len(),
        usage: mean(&used),
        request: pods.first().and_then(|pod| request(pod)).unwrap_or_default(),
        target: autoscaler.and_then(target),
    }
}

fn usage_per_pod(metrics: &[PodMetrics]) -> BTreeMap<String, Amounts> {
    let entry = |pod: &PodMetrics| Some((pod.metadata.name.clone()?, amounts(&pod.containers.first()?.usage)?));
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

/// What the pod's only container asks for. Its JSON has the shape of a usage: `cpu` and `memory`.
fn request(pod: &Pod) -> Option<Amounts> {
    let requests = pod.spec.as_ref()?.containers.first()?.resources.as_ref()?.requests.as_ref()?;
    amounts(&serde_json::from_value(serde_json::to_value(requests).ok()?).ok()?)
}

fn target(autoscaler: &VerticalPodAutoscaler) -> Option<Amounts> {
    let recommendation = autoscaler.status.as_ref()?.recommendation.as_ref()?;
    let target = &recommendation.container_recommendations.first()?.target;
    Some(Amounts { cpu_millicores: target.cpu()?.millicores() as f64, memory_bytes: target.memory()?.bytes() as f64 })
}

fn amounts(usage: &Usage) -> Option<Amounts> {
    let (cpu, memory) = (usage.cpu.as_ref()?, usage.memory.as_ref()?);
    Some(Amounts { cpu_millicores: cpu.milli_value() as f64, memory_bytes: memory.value() as f64 })
}

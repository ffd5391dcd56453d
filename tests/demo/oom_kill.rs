//! The third step where no real node can run: an OOM kill is reported as by a kubelet, and the pod gets
//! more memory at once.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use api::vpa::VerticalPodAutoscaler;
use e2e::{PATIENCE, container, is_available, oom_kill};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::{Instant, timeout};

use crate::observe::{self, NAMESPACE};
use crate::report;

/// Its pods are resized in place.
const WORKLOAD: &str = "worker";

/// From the OOM kill to the changes that follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Healed {
    pub(crate) killed: SystemTime,
    /// Memory of the container before and after, in bytes.
    pub(crate) memory: [f64; 2],
    pub(crate) new_target: Duration,
    pub(crate) larger_pod: Duration,
    /// Until the program of a real container could use the memory.
    pub(crate) usable: Option<Duration>,
}

pub(crate) async fn watch(client: &Client) -> Result<Healed> {
    println!(
        "3. An OOM kill of a container of {WORKLOAD} is reported, as by a kubelet: no real node can run here. The pod gets more memory in place.\n"
    );
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    let autoscalers = Api::<VerticalPodAutoscaler>::namespaced(client.clone(), NAMESPACE);
    let labels = format!("app={WORKLOAD}");
    let list = pods.list(&ListParams::default().labels(&labels)).await?;
    let pod = list.items.into_iter().find(is_available);
    let pod = pod.context("no pod is ready")?;
    let name = pod.name_any();
    let had = memory(&pod).context("it has a size")?;
    let resources = container(&pod).and_then(|status| status.resources.as_ref());
    let resources = serde_json::to_value(resources)?;
    let target = target_memory(&autoscalers.get(WORKLOAD).await?).context("it has a target")?;

    let is_raised = |object: Option<&VerticalPodAutoscaler>| {
        object
            .and_then(target_memory)
            .is_some_and(|now| now > target)
    };
    let is_larger = |pod: Option<&Pod>| pod.and_then(memory).is_some_and(|now| now > had);
    let (killed, time) = (Instant::now(), SystemTime::now());
    let raised = async {
        let raised = await_condition(autoscalers.clone(), WORKLOAD, is_raised);
        let object = timeout(PATIENCE, raised).await.context("a higher target")?;
        anyhow::Ok((killed.elapsed(), object?))
    };
    let larger = async {
        let larger = await_condition(pods.clone(), &name, is_larger);
        let pod = timeout(PATIENCE, larger).await.context("a larger pod")?;
        anyhow::Ok((killed.elapsed(), pod?))
    };
    let (killing, raised, larger) = tokio::join!(oom_kill(&pods, &pod, &resources), raised, larger);
    killing?;
    let ((new_target, object), (larger_pod, pod)) = (raised?, larger?);
    let raised = object.as_ref().and_then(target_memory);
    println!(
        "  {:>5.2} s  pod/{name}: OOM kill with {}",
        0.0,
        report::bytes(had)
    );
    println!(
        "  {:>5.2} s  vpa/{WORKLOAD}: the recommended memory is {} instead of {}",
        new_target.as_secs_f64(),
        report::bytes(raised.context("it has a target")?),
        report::bytes(target)
    );
    let has = pod.as_ref().and_then(memory);
    let has = has.context("the pod is not there")?;
    println!(
        "  {:>5.2} s  pod/{name}: has {}, without a replacement\n",
        larger_pod.as_secs_f64(),
        report::bytes(has)
    );
    Ok(Healed {
        killed: time,
        memory: [had, has],
        new_target,
        larger_pod,
        usable: None,
    })
}

fn memory(pod: &Pod) -> Option<f64> {
    Some(observe::request(pod)?.memory_bytes)
}

fn target_memory(object: &VerticalPodAutoscaler) -> Option<f64> {
    Some(observe::target(object)?.memory_bytes)
}

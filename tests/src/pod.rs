//! The state of a pod by its status.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rustix::process::{Pid, Signal, kill_process};

pub fn container(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

/// A request in the specification of the pod's first container.
pub fn requested<'a>(pod: &'a Pod, resource: &str) -> Option<&'a str> {
    let resources = pod.spec.as_ref()?.containers.first()?.resources.as_ref()?;
    Some(&resources.requests.as_ref()?.get(resource)?.0)
}

/// The requests in effect of the pod's first container, as its kubelet reports them.
pub fn requests_in_effect(pod: &Pod) -> Option<&BTreeMap<String, Quantity>> {
    container(pod)?.resources.as_ref()?.requests.as_ref()
}

/// Whether the pod's condition `Ready` is true.
pub fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.iter();
    let mut conditions = status.flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether the pod is ready and not being deleted.
pub fn is_available(pod: &Pod) -> bool {
    is_ready(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// The process that runs the pod's first container now, in a sandbox that runs it as one.
pub fn process_of(pod: &Pod) -> Result<u32> {
    let id = container(pod).and_then(|status| status.container_id.as_deref());
    let process = id.context("no container yet")?.strip_prefix("process://");
    process
        .context("not a process")?
        .parse()
        .context("not a number")
}

pub fn signal(process: u32, signal: Signal) -> Result<()> {
    let process = Pid::from_raw(process.cast_signed()).context("no process")?;
    kill_process(process, signal).with_context(|| format!("send {signal:?} to {process:?}"))
}

/// The node of a pod; empty before it is bound.
pub fn node_of(pod: &Pod) -> &str {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    node.unwrap_or_default()
}

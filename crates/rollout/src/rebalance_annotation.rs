//! The annotation that allows moves of pods to other nodes.

use view::{Pod, Running, View};

/// Annotation that users set on a pod and a namespace: whether rebalancing may move pods; see
/// docs/rebalancing.md.
///
/// `true` or `false`. That of the pod takes precedence. Without one, a pod is not moved. That of the
/// namespace does not move pods of Jobs, pods with volumes or constraints that other nodes may not
/// satisfy, and pods that other tools may not evict.
pub const REBALANCE: &str = "plimsoll.dev/rebalance";

/// The value of the annotation of a pod, or else of its namespace; `None` for neither.
pub(super) fn written_for<'a>(pod: &'a Pod, view: &'a View) -> Option<&'a str> {
    let own = pod.running.as_deref()?.annotations.get(REBALANCE);
    let namespace = view.namespaces.get(&pod.key.namespace);
    let value = own.or_else(|| namespace?.annotations.get(REBALANCE));
    value.map(String::as_str)
}

/// Whether a pod may be moved, by its annotation, or by that of its namespace if nothing keeps it.
pub(super) fn opts_in(pod: &Pod, view: &View) -> bool {
    let is_of_job = pod.owner.as_ref().is_some_and(|owner| owner.kind == "Job");
    let is_kept = |running: &Running| {
        let is_kept = is_of_job || running.is_tied || running.keeps_pod();
        is_kept && !running.annotations.contains_key(REBALANCE)
    };
    written_for(pod, view) == Some("true") && !pod.running.as_deref().is_some_and(is_kept)
}

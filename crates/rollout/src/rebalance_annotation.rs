//! The annotation that allows moves of pods to other nodes.

use view::{Pod, View};

/// Annotation that users set on a pod and a namespace: whether rebalancing may move pods; see
/// docs/rebalancing.md.
///
/// `true` or `false`. That of the pod takes precedence. Without one, a pod is not moved.
pub const REBALANCE: &str = "plimsoll.dev/rebalance";

/// The value of the annotation of a pod, or else of its namespace; `None` for neither.
pub(super) fn written_for<'a>(pod: &'a Pod, view: &'a View) -> Option<&'a str> {
    let own = pod.running.as_deref()?.annotations.get(REBALANCE);
    let namespace = view.namespaces.get(&pod.key.namespace);
    let value = own.or_else(|| namespace?.annotations.get(REBALANCE));
    value.map(String::as_str)
}

/// Whether a pod may be moved, by its annotation or that of its namespace.
pub(super) fn opts_in(pod: &Pod, view: &View) -> bool {
    written_for(pod, view) == Some("true")
}

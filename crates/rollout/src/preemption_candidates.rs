//! The pods that preemption chooses from: those with a pending resize, and those that may be evicted.

use std::sync::Arc;

use model::Recommendation;
use view::{ObjectKey, Pod, Running};

use super::disruption_limit::PodAvailability;

/// A pod that may be evicted for the sake of a resize.
#[derive(Clone)]
pub(super) struct EvictablePod<'a> {
    pub(super) vpa: ObjectKey,
    pub(super) recommendation: Arc<Recommendation>,
    pub(super) pod: &'a Pod,
    pub(super) running: &'a Running,
    pub(super) availability: PodAvailability,
    /// Index of its group in the plan; `None` if the group is left alone.
    pub(super) group: Option<usize>,
}

/// A pod whose resize the kubelet deferred, or found infeasible on the node.
pub(super) struct PendingResize<'a> {
    pub(super) pod: EvictablePod<'a>,
    /// Whether the node could hold the pod if it was empty.
    pub(super) fits_empty_node: bool,
    /// Whether the pod's VPA object allows its eviction now.
    pub(super) may_move: bool,
}

/// A pod that may be evicted for a pending resize of another pod.
pub(super) struct Victim<'a> {
    pub(super) pod: EvictablePod<'a>,
    /// Whether its replacement would be smaller.
    pub(super) shrinks: bool,
}

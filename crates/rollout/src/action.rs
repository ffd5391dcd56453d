//! Actions on pods, and their outcomes.

use std::sync::Arc;
use std::time::Duration;

use json_patch::Patch;
use model::{Cpu, Memory, Recommendation};
use placement::Amounts;
use view::ObjectKey;

use crate::limits::disruption_limit::Disruption;
use crate::resize::oom_kill::QuickOomKill;
use crate::resize::resize_patch::AnnotationChanges;
use crate::resize::rolling_update::{RollingUpdate, RollingUpdateRefusal};
use crate::resize::size_change::SizeChange;

/// An eviction or a resize of one pod, or a rolling update of its Deployment.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    /// The VPA object that asks for it, or that controls the moved pod. Its name is empty if none
    /// does.
    pub vpa: ObjectKey,
    /// The pod. Of a rolling update: the pod that needs another size most urgently.
    pub pod: ObjectKey,
    /// The pod's unique identifier. A later pod of the same name is another pod.
    pub pod_uid: String,
    pub kind: ActionKind,
    pub reason: ActionReason,
    /// The changes of requests that it brings about; none where it serves another pod.
    pub changes: Vec<SizeChange>,
    /// The recommendation that it was decided from.
    pub recommendation: Arc<Recommendation>,
    /// The loss to the pod's workload.
    pub disruption: Disruption,
    pub oom_kill: Option<QuickOomKill>,
    /// The move to another node that it is for, if any.
    pub relocation: Option<Relocation>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Relocation {
    pub from: String,
    /// The node with the best score. The scheduler may choose another one.
    pub to: String,
    /// Utilization of `from` in percent, of CPU or memory, the higher one.
    pub load_percent: f64,
    /// The threshold that `from` exceeds if it is hot, or is below if it is fragmented, in percent.
    pub threshold_percent: f64,
    /// Gain in score, 1 to 100.
    pub gain: i64,
    pub load: Amounts,
    pub owner_uid: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ActionKind {
    Evict,
    Resize {
        patch: Patch,
        /// The changes of the pod's annotations, made once the resize was accepted.
        annotations: AnnotationChanges,
        /// The recommendation and the node's capacity, to recognise a hopeless retry.
        attempt: ResizeAttempt,
    },
    /// Changes the pod template of the pod's Deployment, which replaces all its pods.
    RollingUpdate(Arc<RollingUpdate>),
}

impl ActionKind {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Evict => "evict",
            Self::Resize { .. } => "resize",
            Self::RollingUpdate(_) => "rolling_update",
        }
    }
}

/// The recommendation of a resize and the capacity of the pod's node. A resize that was infeasible
/// is not tried again while both stay the same.
#[derive(Debug, Clone, PartialEq)]
pub struct ResizeAttempt {
    pub recommendation: Arc<Recommendation>,
    /// The node's capacity; `None` if the node is not known.
    pub node_capacity: Option<NodeCapacity>,
}

/// A node's allocatable resources. Nodes with the same amounts can hold the same pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeCapacity {
    pub cpu: Option<Cpu>,
    pub memory: Option<Memory>,
}

/// The reasons for actions, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActionReason {
    /// A container was OOM killed soon after its start.
    QuickOom,
    /// A container was OOM killed after a resize took memory from it. It gets its memory back.
    Revert,
    /// The kubelet does not lower the memory limit below the usage. The resize of memory is given
    /// up, so that the kubelet carries out the rest.
    MemoryInUse,
    BoostExpired,
    /// A request is below the lower bound, above the upper bound, or missing.
    OutsideBounds,
    /// The pod is old enough, and its requests differ enough from the target.
    Drift,
    /// A pending resize of another pod, or of the same pod, needs room on the node.
    Preemption,
    /// The node was hotter than the threshold for some time.
    HotNode,
    /// The node can be emptied.
    FragmentedNode,
}

impl ActionReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::QuickOom => "quick_oom",
            Self::Revert => "oom_after_resize",
            Self::MemoryInUse => "memory_in_use",
            Self::BoostExpired => "startup_boost_over",
            Self::OutsideBounds => "outside_bounds",
            Self::Drift => "difference_from_target",
            Self::Preemption => "preemption",
            Self::HotNode => "hot_node",
            Self::FragmentedNode => "fragmented_node",
        }
    }

    /// Whether the workload suffers already: such actions precede all others and draw on the
    /// reserved part of the request rate.
    pub fn is_urgent(self) -> bool {
        matches!(self, Self::QuickOom | Self::Revert)
    }

    /// Whether the action only takes back what an earlier one did: memory after an OOM kill, and CPU
    /// after a startup boost. Maintenance windows, frozen recommendations and the webhook's Lease do
    /// not stop it.
    pub fn is_relief(self) -> bool {
        matches!(self, Self::Revert | Self::BoostExpired)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionOutcome {
    Accepted {
        /// The pod's `metadata.generation` after a resize.
        generation: Option<i64>,
    },
    /// A disruption budget, or API priority and fairness, refuses it for now (429).
    TooManyRequests {
        /// The answer's `Retry-After`.
        retry_after: Option<Duration>,
    },
    PodGone,
    /// The node's capacity is too small, whatever else runs there (403 with a cause
    /// `NodeCapacity`).
    Infeasible,
    /// The Deployment gets no rolling update now. Nothing was written.
    RollingUpdateRefused(RollingUpdateRefusal),
    /// A quota is used up, a policy forbids it, or a right is missing (other 403).
    Forbidden,
    /// The API server refused it for another reason (other 4xx).
    Rejected,
    /// There was no answer, or one that does not say whether it happened (5xx).
    Unknown,
}

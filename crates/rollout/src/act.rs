//! What is to be done to pods, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use json_patch::Patch;
use model::{Cpu, Memory, Quantity, Recommendation};
use view::ObjectKey;

use super::group::Disruption;
use super::resize_patch::Annotations;

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Act {
    /// The autoscaler on whose behalf.
    pub autoscaler: ObjectKey,
    /// The pod.
    pub pod: ObjectKey,
    /// The pod's unique identifier: a pod of the same name made later is not meant.
    pub pod_uid: String,
    /// What.
    pub what: What,
    /// Why.
    pub why: Why,
    /// What was recommended when it was decided.
    pub recommendation: Arc<Recommendation>,
    /// What the pod's workload loses by it.
    pub disruption: Disruption,
    /// The OOM kill that it answers, where it does.
    pub oom_kill: Option<QuickOomKill>,
}

/// A container that was OOM killed soon after its start.
#[derive(Debug, Clone, PartialEq)]
pub struct QuickOomKill {
    /// Its name.
    pub container: String,
    /// The time from its start to its end.
    pub ran_for: Duration,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Its memory request.
    pub request: Option<Quantity>,
    /// Its memory limit.
    pub limit: Option<Quantity>,
    /// The recommended memory request, within what its pod may have.
    pub target: Option<Quantity>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// Ask for its eviction.
    Evict,
    /// Change its size where it runs.
    Resize {
        /// For the subresource `resize`.
        resize: Patch,
        /// For the pod itself, once the resize was accepted.
        annotate: Annotations,
        /// What it is for.
        attempt: Attempt,
    },
}

/// What was recommended when a resize was tried, and what the pod's node has; to know when trying
/// again is of no use.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// What the autoscaler recommended.
    pub recommendation: Arc<Recommendation>,
    /// What the node has; none if the node is not known.
    pub shape: Option<Shape>,
}

/// What a node has for pods: nodes that have the same can hold the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// CPU.
    pub cpu: Option<Cpu>,
    /// Memory.
    pub memory: Option<Memory>,
}

/// Why something is done. The most urgent comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// A container was killed for want of memory soon after it had started.
    QuickOom,
    /// It was resized and then killed for want of memory: it gets back what it had.
    Revert,
    /// It does not need the CPU any more that it was given to start with.
    BoostExpired,
    /// It asks for less than the lower bound, or for more than the upper one.
    OutsideBounds,
    /// It is old, and what it asks for is off by enough.
    Drift,
    /// A pod of the same node needs the room.
    MakeRoom,
}

impl Why {
    /// Whether it goes before everything else: the workload suffers.
    pub fn is_urgent(self) -> bool {
        matches!(self, Self::QuickOom | Self::Revert)
    }
}

/// What came of an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was done, or is being done. Of a resize: the generation that the pod then had.
    Accepted {
        /// `metadata.generation` in the answer.
        generation: Option<i64>,
    },
    /// A budget, or the API server itself, asks for patience (429).
    TooMany {
        /// What the answer's `Retry-After` says.
        retry_after: Option<Duration>,
    },
    /// There is no such pod any more.
    Gone,
    /// The node is too small for it, whatever else runs there (403 with a cause `NodeCapacity`).
    Infeasible,
    /// It was refused for another reason (other 4xx).
    Rejected,
    /// Nobody knows: no answer, or one that does not tell (5xx).
    Unknown,
}

/// Why a pod that wants another size does not get it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// The autoscaler.
    pub autoscaler: ObjectKey,
    /// The pod.
    pub pod: ObjectKey,
    /// Why not.
    pub reason: SkipReason,
}

/// Why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// Its workload has too few pods, or as many are away as may be.
    NoRoom,
    /// A `PodDisruptionBudget` allows no disruption.
    DisruptionBudget,
    /// More than one `PodDisruptionBudget` covers it: the API server evicts no such pod.
    SeveralBudgets,
    /// An earlier attempt was refused; it is tried again later.
    BackingOff,
    /// It was OOM killed less than a second ago: others are to see that in its status first.
    RecentOomKill,
    /// Evicted for the same, it came back as it was; it is tried again later.
    InVain,
    /// Its autoscaler, or what its namespace demands, was changed a short time ago, and more may
    /// follow.
    Settling,
    /// The owner's conditions on evictions do not hold.
    Requirements,
    /// Its node can never hold that, as an earlier attempt showed, there or on another node that
    /// has as much.
    KnownInfeasible,
    /// It asks for that already, and the kubelet has not completed it.
    AlreadyAsked,
    /// A resize would change its quality of service class.
    QosClass,
    /// A resize was refused.
    Refused,
    /// It was killed for want of memory after a resize, and keeps what it got back.
    Reverted,
}

//! What is to be done to pods, and what came of it.

use std::time::Duration;

use cluster::ObjectKey;
use json_patch::Patch;

use super::group::Disruption;

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
    /// What the pod's workload loses by it.
    pub disruption: Disruption,
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
        annotate: Patch,
    },
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
    /// The owner's conditions on evictions do not hold.
    Requirements,
}

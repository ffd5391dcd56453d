//! Input and output of a decision.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use api::rollback::Rollback;
use model::Recommendation;
use placement::MeasuredLoad;
use view::{ObjectKey, View};

use crate::action::Action;
use crate::limits::global_pause::PauseReason;
use crate::limits::pod_health::{HealthQuery, HealthReadings};
use crate::limits::vpa_pause::PausedVpa;
use crate::resize::proven_acts::Refutation;
use crate::skip::Skip;

/// Recommendations by the unique identifiers of VPA objects.
pub type Recommendations = BTreeMap<String, Arc<Recommendation>>;

#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    pub view: &'a View,
    /// Recommendations that take precedence over the status of VPA objects.
    pub recommendations: &'a Recommendations,
    /// The reason for which all actions are paused, from [`crate::check_preconditions`].
    pub pause: Option<PauseReason>,
    /// Values of the queries that the last plan had.
    pub health: &'a HealthReadings,
    /// A load of the nodes that no earlier pass had, for rebalancing.
    pub node_load: Option<&'a MeasuredLoad>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Evictions, resizes and rolling updates, the most urgent first.
    pub actions: Vec<Arc<Action>>,
    /// Pods that want another size and do not get it now.
    pub skips: Vec<Arc<Skip>>,
    /// Acts whose effect did not come about, for [`crate::RolloutState::is_new_refutation`].
    pub refutations: Vec<Arc<Refutation>>,
    /// Recommendations to roll back, and rollbacks that are over.
    pub rollbacks: Vec<Arc<RollbackChange>>,
    /// Queries whose values waves wait for.
    pub health_queries: Vec<HealthQuery>,
    /// VPA objects whose pods are not updated now. Times count from the pass that decided so.
    pub paused: Vec<Arc<PausedVpa>>,
    /// Ways to make room for pending resizes.
    pub preemptions: Vec<PreemptionPlan>,
    /// The results of rebalancing; `None` without a new load of the nodes.
    pub rebalancing: Option<RebalancingReport>,
    pub pod_counts: Vec<Arc<PodCounts>>,
    /// The time after which another pass is due although nothing changes.
    pub wake_in: Option<Duration>,
    /// The number of VPA objects that this pass decided about. Decisions about others are kept.
    pub decided: usize,
}

/// A change of the annotation [`api::rollback::ROLLED_BACK`] of a VPA object.
#[derive(Debug, Clone, PartialEq)]
pub struct RollbackChange {
    pub vpa: ObjectKey,
    pub uid: String,
    /// `None` removes it.
    pub rollback: Option<Rollback>,
}

/// The numbers of pods of one VPA object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodCounts {
    pub vpa: ObjectKey,
    pub controlled: usize,
    /// Pods that match the eviction criteria.
    pub evictable: usize,
    /// Pods that match the criteria of in-place resizes.
    pub resizable: usize,
    pub recent: RecentPods,
    /// Pods that its workloads should have and lack, or that have no node.
    pub missing: usize,
    /// Pods with an action in flight.
    pub pending: usize,
    /// Pods with a CPU startup boost, which are not sized yet.
    pub boosted: usize,
    pub allowed: AllowedUpdates,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AllowedUpdates {
    /// Its mode updates pods.
    #[default]
    All,
    NoRecommendation,
    /// Its mode is `InPlace`, and in-place resizes are disabled.
    InPlaceDisabled,
}

/// Numbers of pods of one VPA object that were created within the last ten minutes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecentPods {
    pub reviewed: usize,
    /// Pods that it did not review.
    pub unreviewed: usize,
    /// Pods of both kinds that are ready.
    pub ready: usize,
    /// Pods of both kinds that the webhook did not review, with a container that ended, or that are not
    /// ready after two minutes.
    pub failing: usize,
}

impl AddAssign for RecentPods {
    fn add_assign(&mut self, other: Self) {
        self.reviewed += other.reviewed;
        self.unreviewed += other.unreviewed;
        self.ready += other.ready;
        self.failing += other.failing;
    }
}

/// A way to make room for a pending resize.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreemptionPlan {
    pub vpa: ObjectKey,
    pub pod: ObjectKey,
    pub pod_uid: String,
    pub method: PreemptionMethod,
}

/// The pods to evict for a pending resize.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreemptionMethod {
    /// Other pods of the node.
    Victims(Vec<ObjectKey>),
    /// The pending pod, so that the scheduler places its replacement on another node.
    Itself,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebalancingReport {
    pub hot_nodes: usize,
    /// Pods whose annotation is neither `true` nor `false`, with their unique identifiers; at most
    /// 20.
    pub invalid_annotations: Vec<(ObjectKey, String)>,
}

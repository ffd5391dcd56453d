//! The updater's decisions: pods to resize or evict, their order, method and pace, and the reasons
//! for skipping others. A pure function of the cluster, the state of earlier passes, the settings
//! and two clocks.
//!
//! [`decide`] makes a [`Plan`] from a [`Snapshot`]. The caller carries out its actions, and reports
//! their start and outcome to the [`RolloutState`].
//!
//! One pass, from the cluster to the plan:
//!
//! 1. [`view::Matched`]: the VPA objects that a change concerns, with their pods and budgets
//! 2. `pass`, `vpa_input`, `vpa_pass`: decisions about these; `decision_cache`: the others
//! 3. `global_pause`, `vpa_pause`, `maintenance_window`, `settling`: what pauses updates
//! 4. `priority`, `oom_kill`, `observed_containers`, `eviction_requirements`: pods that want
//!    another size
//! 5. `vpa_pods`, `group_size`, `disruption_limit`, `disruption_budgets`: how many pods
//!    may be unavailable
//! 6. `update_method`, `resize_status`, `resize_patch`, `qos`, `pod_size`: in-place resizes
//! 7. `proven_acts`: acts that an OOM kill refutes, and those that follow
//! 8. `startup_boost`, `memory_restore`: the end of startup boosts, and memory restored after OOM
//!    kills
//! 9. `rolling_update`: rolling updates of Deployments in place of evictions
//! 10. `preemption`, `preemption_candidates`: evictions that make room for pending resizes
//! 11. `rebalancing`: evictions from hot and from fragmented nodes, with a new load of the nodes
//!
//! `application` says for each VPA object whether its pods have the recommended requests.
//! `state` keeps actions in flight and backoffs between passes.

mod action;
mod application;
mod clock;
mod decision_cache;
mod disruption_budgets;
mod disruption_limit;
mod eviction_requirements;
mod global_pause;
mod group_size;
mod maintenance_window;
mod memory_restore;
mod observed_containers;
mod oom_kill;
mod pass;
mod plan_builder;
mod pod_size;
mod preemption;
mod preemption_candidates;
mod priority;
mod proven_acts;
mod qos;
mod rebalance_annotation;
mod rebalancing;
mod recent_pods;
mod resize_patch;
mod resize_status;
mod restart_pace;
mod rolling_update;
mod settings;
mod settling;
mod size_change;
mod startup_boost;
mod state;
mod update_method;
#[cfg(test)]
mod vectors;
mod vpa_input;
mod vpa_pass;
mod vpa_pause;
mod vpa_pods;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::Recommendation;
use placement::MeasuredLoad;
use view::{ObjectKey, View};

pub use action::{
    Action, ActionKind, ActionOutcome, ActionReason, NodeCapacity, Relocation, ResizeAttempt, Skip,
    SkipReason,
};
pub use application::{APPLIED, AllowedUpdates, Application, Applications};
pub use clock::ClockReading;
pub use disruption_limit::Disruption;
pub use global_pause::{
    PausePolicy, PauseReason, Preconditions, WebhookLiveness, check_preconditions, is_current,
};
pub use maintenance_window::{MAINTENANCE_WINDOW, MaintenanceWindow, WindowError};
pub use memory_restore::{RESIZED_FROM, REVERTED_AT};
pub use oom_kill::QuickOomKill;
pub use preemption::{PreemptionMethod, PreemptionPlan};
pub use proven_acts::{NextAct, OOM_RESIZE, Refutation, RefutationCause, RefutedAct};
pub use rebalance_annotation::REBALANCE;
pub use rebalancing::RebalancingReport;
pub use recent_pods::RecentPods;
pub use resize_patch::AnnotationChanges;
pub use rolling_update::{
    REPLACEMENT, RESIZED_AT, ROLLING_UPDATE_INTERVAL, RollingUpdate, RollingUpdateRefusal, may_roll,
};
pub use settings::{PreemptionMode, RebalancingSettings, Settings};
pub use size_change::{BoundViolation, SizeChange};
pub use sizing::Refusal;
pub use state::RolloutState;
pub use vpa_pause::{PausedVpa, VpaPauseReason};

/// Recommendations by the unique identifiers of VPA objects.
pub type Recommendations = BTreeMap<String, Arc<Recommendation>>;

/// The input of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    /// The cluster.
    pub view: &'a View,
    /// Recommendations that take precedence over the status of VPA objects.
    pub recommendations: &'a Recommendations,
    /// The reason for which all actions are paused, from [`check_preconditions`].
    pub pause: Option<PauseReason>,
    /// A load of the nodes that no earlier pass had, for rebalancing.
    pub node_load: Option<&'a MeasuredLoad>,
}

/// The output of a decision.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Evictions, resizes and rolling updates, the most urgent first.
    pub actions: Vec<Arc<Action>>,
    /// Pods that want another size and do not get it now.
    pub skips: Vec<Arc<Skip>>,
    /// Acts whose effect did not come about, for [`RolloutState::is_new_refutation`].
    pub refutations: Vec<Arc<Refutation>>,
    /// VPA objects whose pods are not updated now. Times count from the pass that decided so.
    pub paused: Vec<Arc<PausedVpa>>,
    /// Ways to make room for pending resizes.
    pub preemptions: Vec<PreemptionPlan>,
    /// The results of rebalancing; `None` without a new load of the nodes.
    pub rebalancing: Option<RebalancingReport>,
    /// Numbers of pods by VPA object.
    pub pod_counts: Vec<Arc<PodCounts>>,
    /// The time after which another pass is due although nothing changes.
    pub wake_in: Option<Duration>,
    /// The number of VPA objects that this pass decided about. Decisions about others are kept.
    pub decided: usize,
}

/// The numbers of pods of one VPA object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCounts {
    /// The VPA object.
    pub vpa: ObjectKey,
    /// Pods that it controls.
    pub controlled: usize,
    /// Pods that match the eviction criteria.
    pub evictable: usize,
    /// Pods that match the criteria of in-place resizes.
    pub resizable: usize,
    /// Recently created pods.
    pub recent: RecentPods,
    /// Pods that its workloads should have and lack, or that have no node.
    pub missing: usize,
    /// Pods with an action in flight.
    pub pending: usize,
    /// Pods with a CPU startup boost, which are not sized yet.
    pub boosted: usize,
    /// The updates that the VPA object allows.
    pub allowed: AllowedUpdates,
}

impl PodCounts {
    /// Without pods.
    pub fn of(vpa: ObjectKey) -> Self {
        Self {
            vpa,
            controlled: 0,
            evictable: 0,
            resizable: 0,
            recent: RecentPods::default(),
            missing: 0,
            pending: 0,
            boosted: 0,
            allowed: AllowedUpdates::All,
        }
    }
}

/// Decides about the VPA objects that changes since the last call with this `state` concern, and
/// about those with something due; about all of them after [`RolloutState::forget_decisions`].
/// Returns the plan for all VPA objects. `now` must not be before that of earlier calls.
pub fn decide(
    snapshot: &Snapshot<'_>,
    state: &mut RolloutState,
    settings: &Settings,
    now: ClockReading,
) -> Plan {
    pass::pass(snapshot, state, settings, now)
}

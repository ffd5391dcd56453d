//! Which running pods get another size now, in which way and in which order: a function of what is
//! seen of the cluster, what is remembered, and the time. No input or output here.
//!
//! * `seen.rs`: what changed since the pass before
//! * `index.rs`: which pods are under which VPA object, and what a change is about
//! * `decisions.rs`: what was decided, which holds until something changes
//! * `priority.rs`, `requirements.rs`, `observed.rs`: which of them want another size, and how
//!   badly
//! * `group.rs`, `strength.rs`, `budgets.rs`: how many may be away at a time
//! * `in_place.rs`, `resizing.rs`, `resize_patch.rs`, `qos.rs`, `size.rs`: whether and how a pod is
//!   resized where it runs
//! * `boost.rs`, `revert.rs`: CPU to start with, and memory that was taken too much of
//! * `vpa_pause.rs`, `maintenance_window.rs`, `settling.rs`: when pods are left alone
//! * `preemption.rs`: evictions that make room for a pending resize
//! * `state.rs`: what is on its way and not seen yet, and what was refused
//! * `act.rs`: what comes out

mod action;
mod boost;
mod budgets;
mod changes;
mod clock;
mod decision_cache;
mod eviction_requirements;
mod group;
mod group_size;
mod in_place;
mod index;
mod maintenance_window;
mod members;
mod observed_containers;
mod pass;
mod pause;
mod plan_builder;
mod preemption;
mod priority;
mod qos;
mod resize_patch;
mod resize_status;
mod revert;
mod settings;
mod settling;
mod size;
mod size_change;
mod state;
#[cfg(test)]
mod vectors;
mod vpa_pass;
mod vpa_pause;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::Recommendation;
use view::{ObjectKey, View};

pub use action::{
    Action, ActionKind, ActionOutcome, ActionReason, NodeCapacity, QuickOomKill, ResizeAttempt,
    Skip, SkipReason,
};
pub use changes::ChangeTracker;
pub use clock::ClockReading;
pub use group::Disruption;
pub use maintenance_window::{MAINTENANCE_WINDOW, MaintenanceWindow, WindowError};
pub use pause::{PausePolicy, Preconditions, WebhookLiveness, check_preconditions, is_current};
pub use preemption::{PreemptionMethod, PreemptionPlan};
pub use resize_patch::AnnotationChanges;
pub use revert::{RESIZED_FROM, REVERTED_AT};
pub use settings::{PreemptionMode, Settings};
pub use size_change::{BoundViolation, SizeChange};
pub use state::RolloutState;
pub use vpa_pause::{PausedVpa, VpaPauseReason};

/// Recommendations by the unique identifiers of VPA objects.
pub type Recommendations = BTreeMap<String, Arc<Recommendation>>;

/// What is seen.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    /// The cluster.
    pub view: &'a View,
    /// Recommendations that are newer than those in the status of the VPA objects, by the
    /// VPA objects' unique identifiers.
    pub recommendations: &'a Recommendations,
    /// Why nothing at all may be done, if so.
    pub pause: Option<PauseReason>,
}

/// Why nothing at all may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PauseReason {
    /// Somebody threw the switch that stops everything.
    Stopped,
    /// The webhook does not say that it lives: evicted pods would come back as they were.
    WebhookLeaseExpired,
    /// What is seen of the cluster may be out of date, or from before this replica took the lead.
    ViewStale,
}

impl PauseReason {
    /// The reason as a label of metrics and a field of log lines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::WebhookLeaseExpired => "webhook_gone",
            Self::ViewStale => "view_stale",
        }
    }
}

/// What is to be done now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// What to do, the most urgent first.
    pub actions: Vec<Arc<Action>>,
    /// Which pods want another size and do not get it.
    pub skips: Vec<Arc<Skip>>,
    /// VPA objects whose pods are left alone. Times count from the pass that decided so.
    pub paused: Vec<Arc<PausedVpa>>,
    /// How room is made for pods that wait for it, or could be.
    pub preemptions: Vec<PreemptionPlan>,
    /// What was found, by VPA object.
    pub pod_counts: Vec<Arc<PodCounts>>,
    /// After how long something is due although nothing changed.
    pub wake_in: Option<Duration>,
    /// The number of VPA objects that this pass decided about. What was decided about the others
    /// holds.
    pub decided: usize,
}

/// What was found of one VPA object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCounts {
    /// The VPA object.
    pub vpa: ObjectKey,
    /// Pods under it.
    pub controlled: usize,
    /// Pods that may be evicted.
    pub evictable: usize,
    /// Pods that may be resized where they run.
    pub resizable: usize,
}

/// What is to be done now. Only what has changed since the last call with this `state` is decided
/// about, and what is due by now; everything after [`RolloutState::forget_decisions`]. `state` forgets
/// what the view shows.
pub fn decide(
    snapshot: &Snapshot<'_>,
    state: &mut RolloutState,
    settings: &Settings,
    now: ClockReading,
) -> Plan {
    pass::pass(snapshot, state, settings, now)
}

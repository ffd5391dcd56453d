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
//! 2. `pass`, `vpa_pass`: decisions about these; `state`: the decisions about the others, actions
//!    in flight and backoffs
//! 3. `limits`: what pauses updates, and how many pods of a group may be unavailable; with
//!    `vpa_pods` and `disruption_budgets`, which count them
//! 4. `selection`: pods that want another size, and their order
//! 5. `resize`: the size of a pod, resizes in place, rolling updates in place of evictions, startup
//!    boosts, memory restored after OOM kills, acts that an OOM kill refutes
//! 6. `moves`: evictions that make room for pending resizes, or from hot and from fragmented nodes
//!
//! `skip` has the reasons for which pods keep their size, and `application` says for each VPA object
//! whether its pods have the recommended requests.

mod action;
mod application;
mod clock;
mod disruption_budgets;
mod limits;
mod moves;
mod pass;
mod plan;
mod plan_builder;
mod resize;
mod selection;
mod settings;
mod skip;
mod state;
#[cfg(test)]
mod vectors;
mod vpa_pass;
mod vpa_pods;

pub use action::{
    Action, ActionKind, ActionOutcome, ActionReason, NodeCapacity, Relocation, ResizeAttempt,
};
pub use application::{APPLIED, Application, Applications};
pub use clock::ClockReading;
pub use limits::disruption_limit::Disruption;
pub use limits::global_pause::{
    PausePolicy, PauseReason, Preconditions, WebhookLiveness, check_preconditions, is_current,
};
pub use limits::maintenance_window::MAINTENANCE_WINDOW;
pub use limits::pod_health::{
    HealthMetric, HealthQuery, HealthReading, HealthReadings, add_reading,
};
pub use limits::vpa_pause::{PausedVpa, VpaPauseReason};
pub use moves::rebalancing::REBALANCE;
pub use pass::decide;
pub use plan::{
    AllowedUpdates, Plan, PodCounts, PreemptionMethod, PreemptionPlan, RebalancingReport,
    RecentPods, Recommendations, RollbackChange, Snapshot,
};
pub use resize::memory_restore::{RESIZED_FROM, REVERTED_AT};
pub use resize::oom_kill::QuickOomKill;
pub use resize::proven_acts::{NextAct, OOM_RESIZE, Refutation, RefutationCause, RefutedAct};
pub use resize::resize_patch::AnnotationChanges;
pub use resize::rolling_update::{
    REPLACEMENT, RESIZED_AT, ROLLING_UPDATE_INTERVAL, RollingUpdate, RollingUpdateRefusal, may_roll,
};
pub use resize::size_change::SizeChange;
pub use settings::{PreemptionMode, RebalancingSettings, Settings, WaveSettings};
pub use sizing::Refusal;
pub use skip::{Skip, SkipReason};
pub use state::RolloutState;

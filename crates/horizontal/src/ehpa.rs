//! `EffectiveHorizontalPodAutoscaler` (EHPA) objects: the `HorizontalPodAutoscaler` (HPA) and the
//! `TimeSeriesPrediction` that each of them owns.
//!
//! | topic | file |
//! |---|---|
//! | objects as observed | `snapshot.rs` |
//! | from observed to desired objects | `plan.rs` |
//! | HPA to use: own, adopted or none; marks of adoption; orphans | `selection.rs`, `adoption.rs`, `orphans.rs` |
//! | HPA and its metrics | `hpa.rs`, `metrics.rs`, `utilization.rs`, `crons.rs` |
//! | prediction and the queries for histories | `prediction.rs`, `predictable.rs`, `rules.rs` |
//! | Substitute of a preview | `substitute.rs` |
//! | status and its conditions | `status.rs` |
//! | names, labels and annotations, as in Crane | `names.rs` |
//!
//! Source of names and rules: gocrane/crane `pkg/controller/ehpa`.

mod adoption;
pub(crate) mod crons;
mod hpa;
mod metrics;
pub(crate) mod names;
mod orphans;
mod plan;
mod predictable;
mod prediction;
mod rules;
mod selection;
mod snapshot;
mod status;
mod substitute;
#[cfg(test)]
mod tests;
mod utilization;

use std::sync::Arc;
use std::time::Duration;

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use view::{Pod, Whole};

pub use adoption::{Writable, refusal, restored, with_original};
pub use names::{Propagation, may_adopt, owned_name};
pub use orphans::{Attempt, MAX_ATTEMPTS, Orphan, Orphans};
pub use plan::{Desired, Plan, plan};
pub(crate) use prediction::is_by_rule;
pub use rules::Rules;
pub use snapshot::{EhpaSnapshot, Snapshot, differs, target_pods};
pub use status::{news, says, status};

/// Interval after which a preview, or an object with a problem, is looked at without a change.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(15);
/// Interval after which any other object is looked at without a change.
pub const RESYNC_INTERVAL: Duration = Duration::from_mins(5);

/// Everything that is known of one object and of what belongs to it.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// The object.
    pub object: &'a EffectiveHorizontalPodAutoscaler,
    /// The scale subresource of its target, or why it cannot be read.
    pub target: Result<&'a TargetScale, &'a str>,
    /// Pods of the target.
    pub pods: &'a [Arc<Pod>],
    /// The autoscalers of its namespace that concern it: its own, those of its target, and the one
    /// of the name that its own gets.
    pub hpas: &'a [Arc<Whole<HorizontalPodAutoscaler>>],
    /// The name of an older object that scales the same workload, if there is one.
    pub older_ehpa: Option<&'a str>,
    /// The prediction of its name.
    pub prediction: Option<&'a TimeSeriesPrediction>,
    /// The substitute of its name.
    pub substitute: Option<&'a Substitute>,
    /// Which labels and annotations are passed on.
    pub propagation: &'a Propagation,
    /// How the history of some metrics is asked for.
    pub rules: &'a Rules,
    /// The time.
    pub now: Timestamp,
}

/// What the scale subresource of a workload says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetScale {
    /// How many replicas it should have.
    pub spec_replicas: i32,
    /// How many it has.
    pub status_replicas: i32,
    /// Which pods are its own, as text.
    pub selector: String,
}

/// Something that cannot be done, or not fully.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// In one word.
    pub reason: &'static str,
    /// In a sentence.
    pub message: String,
}

impl Problem {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

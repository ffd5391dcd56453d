//! `EffectiveHorizontalPodAutoscaler` (EHPA) objects: the `HorizontalPodAutoscaler` (HPA) and the
//! `TimeSeriesPrediction` that each of them owns.
//!
//! | topic | file |
//! |---|---|
//! | objects as observed | `snapshot.rs` |
//! | from observed to desired objects | `plan.rs` |
//! | HPA to use: own, adopted or none; marks of adoption; orphans | `hpa_choice.rs`, `adoption.rs`, `orphans.rs` |
//! | HPA, its metrics, and the Substitute of a preview | `hpa.rs`, `metrics.rs`, `utilization.rs`, `crons.rs` |
//! | amount per pod that a VPA does not move | `scale_point.rs` |
//! | prediction and the queries for histories | `prediction.rs`, `predictable_metrics.rs`, `history_queries.rs` |
//! | time until new pods are ready, window of the prediction | `pod_ready_times.rs` |
//! | status, its conditions and their reasons | `status.rs`, `reasons.rs` |
//! | names, labels and annotations, as in Crane | `names.rs` |
//!
//! Source of names and rules: gocrane/crane `pkg/controller/ehpa`.

mod adoption;
pub(crate) mod crons;
mod history_queries;
mod hpa;
mod hpa_choice;
mod metrics;
pub(crate) mod names;
mod orphans;
mod plan;
mod pod_ready_times;
mod predictable_metrics;
mod prediction;
pub mod reasons;
mod scale_point;
mod snapshot;
mod status;
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
use view::{Pod, Stripped, Vpa};

pub use adoption::{Writable, refusal, restored, with_original};
pub use history_queries::Rules;
pub use names::{Propagation, may_adopt, owned_name};
pub use orphans::{Attempt, MAX_ATTEMPTS, Orphan, Orphans};
pub use plan::{Desired, Plan, plan};
pub(crate) use pod_ready_times::DEFAULT_WINDOW;
pub use pod_ready_times::{PodReadyTimes, window_seconds};
pub(crate) use prediction::is_by_rule;
pub use scale_point::{ask_the_same, scale_point_vpas, scale_points};
pub use snapshot::{EhpaSnapshot, Snapshot, differs, target_pods};
pub use status::{ready_contains, status, unpredictable_metrics};

/// Interval of passes over a preview, or an EHPA with a problem.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(15);
/// Interval of passes over any other EHPA.
pub const RESYNC_INTERVAL: Duration = Duration::from_mins(5);

/// An EHPA and the objects that belong to it: the input of all decisions.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    pub object: &'a EffectiveHorizontalPodAutoscaler,
    /// Scale subresource of its target, or the error of reading it.
    pub target: Result<&'a TargetScale, &'a str>,
    pub pods: &'a [Arc<Pod>],
    /// Seconds until its new pods are ready; `None` if none was measured.
    pub ready_seconds: Option<u32>,
    /// VPAs of its target that ask for the present scale point.
    pub vpas: &'a [Arc<Vpa>],
    /// HPAs of its namespace that concern it: its own, those of its target, and the one with the
    /// name of its own.
    pub hpas: &'a [Arc<Stripped<HorizontalPodAutoscaler>>],
    /// Name of an older EHPA that scales the same workload.
    pub older_ehpa: Option<&'a str>,
    pub prediction: Option<&'a TimeSeriesPrediction>,
    pub substitute: Option<&'a Substitute>,
    pub propagation: &'a Propagation,
    pub rules: &'a Rules,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetScale {
    pub spec_replicas: i32,
    pub status_replicas: i32,
    /// Label selector of its pods, as text.
    pub selector: String,
}

/// A reason for which an EHPA is not, or not fully, effective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub reason: &'static str,
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

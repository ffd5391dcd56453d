//! `EffectiveHorizontalPodAutoscaler` objects: the `HorizontalPodAutoscaler` and the
//! `TimeSeriesPrediction` that each of them owns.
//!
//! * `names`: names, labels and annotations, as Crane has them.
//! * `metrics`: the metrics of the autoscaler: what the user wrote, what is expected of it, and the
//!   clock.
//! * `predictable`: which of them can be predicted.
//! * `average`: percent of requests as an amount per pod.
//! * `crons`: whether windows of time can be understood.
//! * `forecast`: what is to be predicted, and how its history is asked for.
//! * `rules`: where a rule file says how that is asked for.
//! * `autoscaler`: the autoscaler itself; `adopt`: which one that is there already is taken over.
//! * `substitute`: what stands for the workload in a preview.
//! * `plan`: from what is seen to what is to be, as a pure function.
//! * `status`: what is said of the object; `gauges`: what Crane measures of it.
//! * `watch`: sees the objects once their kinds can be read.
//! * `keep`: sees, plans and writes, for one term of leadership.
//!
//! Source of names and rules: gocrane/crane `pkg/controller/ehpa`.

mod adopt;
mod autoscaler;
mod average;
mod crons;
mod forecast;
pub(crate) mod gauges;
pub(crate) mod keep;
mod metrics;
mod names;
mod orphans;
pub(crate) mod plan;
mod predictable;
pub(crate) mod rules;
mod status;
mod substitute;
#[cfg(test)]
mod tests;
pub(crate) mod watch;

use std::sync::Arc;

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use view::{Pod, Stripped};

pub(crate) use forecast::is_by_rule;
pub(crate) use names::Propagation;
use rules::Rules;

/// Everything that is known of one object and of what belongs to it.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) object: &'a EffectiveHorizontalPodAutoscaler,
    /// The scale subresource of its target, or why it cannot be read.
    pub(crate) target: Result<&'a Target, &'a str>,
    /// Pods of the target.
    pub(crate) pods: &'a [Arc<Pod>],
    /// The autoscalers of its namespace that concern it: its own, those of its target, and the one
    /// of the name that its own gets.
    pub(crate) autoscalers: &'a [Arc<Stripped<HorizontalPodAutoscaler>>],
    /// The name of an older object that scales the same workload, if there is one.
    pub(crate) elder: Option<&'a str>,
    /// The prediction of its name.
    pub(crate) prediction: Option<&'a TimeSeriesPrediction>,
    /// The substitute of its name.
    pub(crate) substitute: Option<&'a Substitute>,
    /// Which labels and annotations are passed on.
    pub(crate) propagation: &'a Propagation,
    /// How the history of some metrics is asked for.
    pub(crate) rules: &'a Rules,
    pub(crate) now: Timestamp,
}

/// What the scale subresource of a workload says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// How many replicas it should have.
    pub(crate) spec_replicas: i32,
    /// How many it has.
    pub(crate) status_replicas: i32,
    /// Which pods are its own, as text.
    pub(crate) selector: String,
}

/// Something that cannot be done, or not fully.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// In one word.
    pub(crate) reason: &'static str,
    /// In a sentence.
    pub(crate) message: String,
}

impl Problem {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

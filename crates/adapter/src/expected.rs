//! What is expected of workloads, as Crane's metric adapter serves it: predictions, and windows of time.
//!
//! * `series`: which workloads a selector means.
//! * `forecast`: the number that a prediction is good for, or why it is good for none.
//! * `prediction`: predicted totals of workloads (`crane_autoscaling_prediction`).
//! * `pods`: predicted CPU shared out among pods (`crane_pod_cpu_usage`).
//! * `cron`: replicas that windows of time ask for (`crane_autoscaling_cron`).
//!
//! All answers come from memory. Source of names and rules: gocrane/crane `pkg/metricprovider`; unlike there, totals are exact to a thousandth, and
//! a prediction that no longer covers its window is refused, after a while in which its last complete answer stands.

mod cron;
mod forecast;
mod pods;
mod prediction;
mod series;
#[cfg(test)]
mod tests;

use std::time::Duration;

use cluster::{Freshness, Resource, Scope, View, Watches};
use jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;

use crate::answer::{ExternalValue, MetricValue};
use crate::ask::{CustomAsk, ExternalAsk};
use crate::refusal::Refusal;

/// The external metric of predicted totals.
pub const PREDICTION: &str = "crane_autoscaling_prediction";
/// The external metric of windows of time.
pub const CRON: &str = "crane_autoscaling_cron";
/// The metric of predicted CPU per pod.
pub const POD_CPU: &str = "crane_pod_cpu_usage";

/// Knows what is expected of workloads.
#[derive(Debug, Clone)]
pub struct Expected {
    view: watch::Receiver<View>,
    /// How long what was last known stands in for what should be.
    grace: Duration,
}

impl Expected {
    /// Answers from what is seen of the cluster. `grace`: how long the last complete answer of a prediction stands after it has ceased to cover its
    /// window, and how long what a watch saw last is relied on after it has broken.
    pub fn new(view: watch::Receiver<View>, grace: Duration) -> Self {
        Self { view, grace }
    }

    /// The same with watches of its own, which end when they are dropped.
    pub fn watch(client: Client, grace: Duration) -> (Self, Watches) {
        let watches = Watches::new(client, Scope::default()).expectations().labelled_pods().scaled_controllers();
        (Self::new(watches.view(), grace), watches)
    }

    /// The values of a metric that belongs to no object; none if it is not one of these.
    pub fn external(&self, ask: &ExternalAsk, now: Timestamp) -> Result<Option<Vec<ExternalValue>>, Refusal> {
        let view = self.view.borrow();
        match ask.metric.as_str() {
            PREDICTION => prediction::values(&view, ask, now, self.grace).map(Some),
            CRON => cron::values(&view, ask, now, self.grace).map(Some),
            _ => Ok(None),
        }
    }

    /// The values of a metric of objects; none if it is not one of these.
    pub fn custom(&self, ask: &CustomAsk, now: Timestamp) -> Result<Option<Vec<MetricValue>>, Refusal> {
        match (ask.metric.as_str(), ask.resource.to_string().as_str(), &ask.namespace) {
            (POD_CPU, "pods", Some(namespace)) => {
                let view = self.view.borrow();
                pods::values(&view, namespace, ask, now, self.grace).map(Some)
            }
            _ => Ok(None),
        }
    }
}

impl Default for Expected {
    /// Knows of nothing.
    fn default() -> Self {
        Self::new(watch::channel(View::default()).1, Duration::ZERO)
    }
}

/// There is no number, and why. It begins as other adapters' answers do.
fn missing(metric: &str, why: impl std::fmt::Display) -> Refusal {
    Refusal::NotFound(format!("the server could not find the metric {metric}: {why}"))
}

/// Refuses to answer from what was never seen, or was seen too long ago.
fn rely_on(view: &View, resource: Resource, metric: &str, now: Timestamp, grace: Duration) -> Result<(), Refusal> {
    let Some(Freshness { synced, stale_since, .. }) = view.freshness_of(resource) else { return Ok(()) };
    let name = resource.name();
    if !synced {
        return Err(Refusal::Unavailable(format!("{name} could not be read from the API server yet")));
    }
    let age = stale_since.map_or(0, |since| now.duration_since(since).as_secs());
    let limit = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
    if age > limit {
        return Err(missing(metric, format_args!("{name} were last seen {age}s ago, limit {limit}s")));
    }
    Ok(())
}

//! What is expected of workloads, as Crane's metric adapter serves it: predictions, and windows of
//! time.
//!
//! * `known`: what is known of the cluster and from the recommender's feed.
//! * `series`: which workloads a selector means.
//! * `forecast`: the number that a prediction is good for, or why it is good for none.
//! * `prediction`: predicted totals of workloads (`crane_autoscaling_prediction`).
//! * `pods`: predicted CPU shared out among pods (`crane_pod_cpu_usage`).
//! * `cron`: replicas that windows of time ask for (`crane_autoscaling_cron`).
//! * `size`: how many replicas a workload has, where it keeps them.
//!
//! All answers but the last come from memory. Source of names and rules: gocrane/crane
//! `pkg/metricprovider`; unlike there, totals are exact to a thousandth, and a prediction that no
//! longer covers its window is refused, after a while in which its last complete answer stands.

mod cron;
mod forecast;
mod pods;
mod scale;
mod series;
mod snapshot;
#[cfg(test)]
mod tests;
mod totals;

use std::time::{Duration, Instant};

use ::watch::Watches;
use feed::{Forecast, Subscription};
use jiff::Timestamp;
use kube::Client;
use runtime::ApiServerClock;
use tokio::sync::watch;
use view::{Scope, View};

use crate::flow::Flow;
use crate::request::{CustomMetricRequest, ExternalMetricRequest};
use crate::status_error::StatusError;
use crate::value::{ExternalValue, MetricValue};
use scale::ScaleClient;
use snapshot::Snapshot;

/// The external metric of predicted totals.
pub const PREDICTION: &str = "crane_autoscaling_prediction";
/// The external metric of windows of time.
pub const CRON: &str = "crane_autoscaling_cron";
/// The metric of predicted CPU per pod.
pub const POD_CPU: &str = "crane_pod_cpu_usage";

/// Knows what is expected of workloads.
#[derive(Debug, Clone)]
pub struct Predictions {
    view: watch::Receiver<View>,
    /// What the recommender tells, where it is heard. It is newer than what it wrote.
    feed: Option<watch::Receiver<Subscription<Forecast>>>,
    /// Whom to ask how many replicas there are at the moment.
    sizes: Option<ScaleClient>,
    /// How long what was last known stands in for what should be.
    grace: Duration,
    /// The time of windows and forecasts. Without it, that of this machine.
    clock: ApiServerClock,
}

impl Predictions {
    /// Answers from what is seen of the cluster. `grace`: how long the last complete answer of a
    /// prediction stands after it has ceased to cover its window, and how long what a watch saw
    /// last is relied on after it has broken.
    pub fn new(view: watch::Receiver<View>, grace: Duration) -> Self {
        Self {
            view,
            feed: None,
            sizes: None,
            grace,
            clock: ApiServerClock::default(),
        }
    }

    /// The same, but windows open and forecasts count by the API server's time: a machine whose
    /// clock is off must not scale workloads.
    #[must_use]
    pub fn with_clock(self, clock: ApiServerClock) -> Self {
        Self { clock, ..self }
    }

    /// The same, but what the recommender tells comes first.
    #[must_use]
    pub fn with_feed(self, feed: Option<watch::Receiver<Subscription<Forecast>>>) -> Self {
        Self { feed, ..self }
    }

    /// The same, but workloads that keep what they have can be asked about.
    #[must_use]
    pub fn with_scale_client(self, client: Client) -> Self {
        Self {
            sizes: Some(ScaleClient::new(client)),
            ..self
        }
    }

    /// The same with watches of its own, which end when they are dropped.
    pub fn watch(client: Client, grace: Duration) -> (Self, Watches) {
        let watches = Watches::new(client.clone(), Scope::default())
            .expectations()
            .labelled_pods()
            .scaled_controllers();
        (
            Self::new(watches.view(), grace).with_scale_client(client),
            watches,
        )
    }

    /// What is seen of the cluster; the labels of its pods among it, where it watches.
    pub fn view(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    /// The values of a metric that belongs to no object; none if it is not one of these.
    pub async fn external(
        &self,
        request: &ExternalMetricRequest,
        flow: &Flow,
        now: Timestamp,
    ) -> Result<Option<Vec<ExternalValue>>, StatusError> {
        match request.metric.as_str() {
            PREDICTION => self
                .with_snapshot(now, |snapshot| totals::values(snapshot, request))
                .map(Some),
            CRON => self.windows(request, flow, now).await.map(Some),
            _ => Ok(None),
        }
    }

    async fn windows(
        &self,
        request: &ExternalMetricRequest,
        flow: &Flow,
        now: Timestamp,
    ) -> Result<Vec<ExternalValue>, StatusError> {
        let idle = self.with_snapshot(now, |snapshot| cron::idle_targets(snapshot, request))?;
        let sizes = match &self.sizes {
            Some(sizes) if !idle.is_empty() => sizes.read_all(idle, flow).await,
            _ => Vec::new(),
        };
        self.with_snapshot(now, |snapshot| cron::values(snapshot, request, &sizes))
    }

    /// The values of a metric of objects; none if it is not one of these.
    pub fn custom(
        &self,
        request: &CustomMetricRequest,
        now: Timestamp,
    ) -> Result<Option<Vec<MetricValue>>, StatusError> {
        match (
            request.metric.as_str(),
            request.resource.to_string().as_str(),
            &request.namespace,
        ) {
            (POD_CPU, "pods", Some(namespace)) => self
                .with_snapshot(now, |snapshot| pods::values(snapshot, namespace, request))
                .map(Some),
            _ => Ok(None),
        }
    }

    fn with_snapshot<T>(&self, now: Timestamp, answer: impl FnOnce(&Snapshot<'_>) -> T) -> T {
        let feed = self.feed.as_ref().map(watch::Receiver::borrow);
        let machine_now = now;
        let now = Timestamp::try_from(self.clock.at(machine_now.into(), Instant::now()))
            .unwrap_or(machine_now);
        answer(&Snapshot {
            view: &self.view.borrow(),
            feed: feed.as_deref(),
            now,
            machine_now,
            grace: self.grace,
        })
    }
}

impl Default for Predictions {
    /// Knows of nothing.
    fn default() -> Self {
        Self::new(watch::channel(View::default()).1, Duration::ZERO)
    }
}

/// There is no number, and why. It begins as other adapters' answers do.
fn missing(metric: &str, why: impl std::fmt::Display) -> StatusError {
    StatusError::NotFound(format!(
        "the server could not find the metric {metric}: {why}"
    ))
}

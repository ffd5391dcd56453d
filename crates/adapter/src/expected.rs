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
mod known;
mod pods;
mod prediction;
mod series;
mod size;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use ::watch::Watches;
use feed::{Forecast, Subscription};
use jiff::Timestamp;
use kube::Client;
use runtime::ApiServerClock;
use tokio::sync::watch;
use view::{Scope, View};

use crate::answer::{ExternalValue, MetricValue};
use crate::ask::{CustomAsk, ExternalAsk};
use crate::flow::Flow;
use crate::refusal::Refusal;
use known::Known;
use size::Sizes;

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
    /// What the recommender tells, where it is heard. It is newer than what it wrote.
    heard: Option<watch::Receiver<Subscription<Forecast>>>,
    /// Whom to ask how many replicas there are at the moment.
    sizes: Option<Sizes>,
    /// How long what was last known stands in for what should be.
    grace: Duration,
    /// The time of windows and forecasts. Without it, that of this machine.
    clock: ApiServerClock,
}

impl Expected {
    /// Answers from what is seen of the cluster. `grace`: how long the last complete answer of a
    /// prediction stands after it has ceased to cover its window, and how long what a watch saw
    /// last is relied on after it has broken.
    pub fn new(view: watch::Receiver<View>, grace: Duration) -> Self {
        Self {
            view,
            heard: None,
            sizes: None,
            grace,
            clock: ApiServerClock::default(),
        }
    }

    /// The same, but windows open and forecasts count by the API server's time: a machine whose
    /// clock is off must not scale workloads.
    #[must_use]
    pub fn by(self, clock: ApiServerClock) -> Self {
        Self { clock, ..self }
    }

    /// The same, but what the recommender tells comes first.
    #[must_use]
    pub fn hearing(self, heard: Option<watch::Receiver<Subscription<Forecast>>>) -> Self {
        Self { heard, ..self }
    }

    /// The same, but workloads that keep what they have can be asked about.
    #[must_use]
    pub fn asking(self, client: Client) -> Self {
        Self {
            sizes: Some(Sizes::new(client)),
            ..self
        }
    }

    /// The same with watches of its own, which end when they are dropped.
    pub fn watch(client: Client, grace: Duration) -> (Self, Watches) {
        let watches = Watches::new(client.clone(), Scope::default())
            .predictions_and_schedules()
            .labelled_pods()
            .scaled_controllers();
        (Self::new(watches.view(), grace).asking(client), watches)
    }

    /// What is seen of the cluster; the labels of its pods among it, where it watches.
    pub fn view(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    /// The values of a metric that belongs to no object; none if it is not one of these.
    pub async fn external(
        &self,
        ask: &ExternalAsk,
        flow: &Flow,
        now: Timestamp,
    ) -> Result<Option<Vec<ExternalValue>>, Refusal> {
        match ask.metric.as_str() {
            PREDICTION => self
                .know(now, |known| prediction::values(known, ask))
                .map(Some),
            CRON => self.windows(ask, flow, now).await.map(Some),
            _ => Ok(None),
        }
    }

    async fn windows(
        &self,
        ask: &ExternalAsk,
        flow: &Flow,
        now: Timestamp,
    ) -> Result<Vec<ExternalValue>, Refusal> {
        let kept = self.know(now, |known| cron::kept(known, ask))?;
        let sizes = match &self.sizes {
            Some(sizes) if !kept.is_empty() => sizes.ask(kept, flow).await,
            _ => Vec::new(),
        };
        self.know(now, |known| cron::values(known, ask, &sizes))
    }

    /// The values of a metric of objects; none if it is not one of these.
    pub fn custom(
        &self,
        ask: &CustomAsk,
        now: Timestamp,
    ) -> Result<Option<Vec<MetricValue>>, Refusal> {
        match (
            ask.metric.as_str(),
            ask.resource.to_string().as_str(),
            &ask.namespace,
        ) {
            (POD_CPU, "pods", Some(namespace)) => self
                .know(now, |known| pods::values(known, namespace, ask))
                .map(Some),
            _ => Ok(None),
        }
    }

    fn know<T>(&self, now: Timestamp, answer: impl FnOnce(&Known<'_>) -> T) -> T {
        let heard = self.heard.as_ref().map(watch::Receiver::borrow);
        let own_now = now;
        let now =
            Timestamp::try_from(self.clock.at(own_now.into(), Instant::now())).unwrap_or(own_now);
        answer(&Known {
            view: &self.view.borrow(),
            heard: heard.as_deref(),
            now,
            own_now,
            grace: self.grace,
        })
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
    Refusal::NotFound(format!(
        "the server could not find the metric {metric}: {why}"
    ))
}

//! Predictions and cron schedules as metrics, as in Crane's metric adapter.
//!
//! All but `scale` need no request to another server. Source of names and rules: gocrane/crane
//! `pkg/metricprovider`. Unlike there, totals are exact to a thousandth, and a prediction that does
//! not cover its window any more expires after a grace period.

mod cron;
mod pod_cpu;
mod scale;
mod selector;
mod snapshot;
#[cfg(test)]
mod tests;
mod totals;
mod window_maximum;

use std::time::{Duration, Instant};

use ::watch::Watches;
use feed::{Forecast, Reader, Subscription};
use jiff::Timestamp;
use runtime::{ApiServerClock, Manager};
use serving::{FeedReader, FeedSource};
use tokio::sync::watch;
use view::{Scope, View};

use super::request::{CustomMetricRequest, ExternalMetricRequest, StatusError};
use crate::flow_limiter::Flow;
use crate::value::{ExternalValue, MetricValue};
use scale::ScaleClient;
use snapshot::Snapshot;

pub const PREDICTION: &str = "crane_autoscaling_prediction";
pub const CRON: &str = "crane_autoscaling_cron";
pub const POD_CPU: &str = "crane_pod_cpu_usage";

/// Time for which a prediction that does not cover its window any more, or the last state of a broken
/// watch, is still used: as long as the recommender may be away for an update. After it, metrics have
/// no value and workloads keep their replicas.
const LAST_GOOD_VALUE_FOR: Duration = Duration::from_mins(5);

#[derive(Clone)]
pub struct Predictions {
    /// The view, which includes the labels of pods.
    pub(crate) view: watch::Receiver<View>,
    /// The recommender's feed, which is newer than what the recommender has written.
    feed: Option<watch::Receiver<Subscription<Forecast>>>,
    sizes: Option<ScaleClient>,
    /// The clock for predictions and schedules: a machine with a wrong clock must not scale
    /// workloads. Default: the machine's.
    clock: ApiServerClock,
}

impl Predictions {
    pub fn new(view: watch::Receiver<View>) -> Self {
        Self {
            view,
            feed: None,
            sizes: None,
            clock: ApiServerClock::default(),
        }
    }

    /// Starts the watches of the cluster and the subscription to the feed.
    pub fn start(feed: FeedReader, manager: &Manager) -> anyhow::Result<Self> {
        let subscribe = |source: FeedSource| {
            let reader = Reader {
                leaders: source.leaders,
                tls: source.tls,
                server_name: source.server_name,
            };
            let (subscription, reading) = reader.subscribe();
            manager.tasks.spawn_until_shutdown("feed", reading);
            subscription
        };
        let feed = feed.source(manager)?.map(subscribe);
        let mut watches = Watches::new(manager.client.clone(), Scope::default())
            .predictions_and_schedules()
            .labelled_pods()
            .scaled_controllers();
        let predictions = Self {
            feed,
            sizes: Some(ScaleClient::new(manager.client.clone())),
            clock: manager.clock(),
            ..Self::new(watches.view())
        };
        let watching = async move { watches.ended().await };
        manager.tasks.spawn_until_shutdown("watches", watching);
        Ok(predictions)
    }

    /// Returns the values of an external metric; `None` for other metrics.
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

    /// Returns the values of a metric of objects; `None` for other metrics.
    pub fn custom(
        &self,
        request: &CustomMetricRequest,
        now: Timestamp,
    ) -> Result<Option<Vec<MetricValue>>, StatusError> {
        let is_of_pods = request.metric == POD_CPU && request.resource.to_string() == "pods";
        let Some(namespace) = request.namespace.as_ref().filter(|_| is_of_pods) else {
            return Ok(None);
        };
        self.with_snapshot(now, |snapshot| {
            pod_cpu::values(snapshot, namespace, request)
        })
        .map(Some)
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
        })
    }
}

impl Default for Predictions {
    fn default() -> Self {
        Self::new(watch::channel(View::default()).1)
    }
}

/// Returns a `NotFound` error, which begins like those of other adapters.
fn missing(metric: &str, why: impl std::fmt::Display) -> StatusError {
    StatusError::NotFound(format!(
        "the server could not find the metric {metric}: {why}"
    ))
}

//! Whether a store has series of several clusters, which queries without a matcher add up.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use promql::{CLUSTER_LABELS, Clusters, UsageSeries, UsageSettings};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::error::PrometheusError;
use super::http::Prometheus;
use super::time_range::Window;
use crate::error_chain::with_causes;
use promql::query::usage_selector;

/// Time for which a result of [`ClusterCheck`] is kept.
const LASTS: Duration = Duration::from_mins(10);
/// The same if there are several clusters, or the store did not answer.
const RETRY: Duration = Duration::from_mins(1);
/// The index is asked for this time. Old series are no fault.
const RECENT_MS: i64 = 3_600_000;
const PATIENCE: Duration = Duration::from_secs(30);

impl Prometheus {
    /// Refuses a store with present usage of several clusters, unless the matchers name the label
    /// that tells them apart.
    ///
    /// A label with the name of clusters is looked up in the index, so that a large store with one
    /// cluster costs little. Other labels are compared for a few containers.
    pub(super) async fn refuse_several_clusters(
        &self,
        series: &UsageSeries,
        window: Window,
    ) -> Result<(), PrometheusError> {
        let start = window.end.saturating_sub(RECENT_MS);
        let recent = Window { start, ..window };
        let refuse = |clusters: Option<Clusters>| {
            clusters.map_or(Ok(()), |it| Err(PrometheusError::SeveralClusters(it)))
        };
        let selector = usage_selector(series, None);
        for label in CLUSTER_LABELS {
            if self.matchers.names(label) {
                continue;
            }
            let values = self.label_values(label, &selector, recent, None).await?;
            let indexed = Clusters::of(label, values);
            if indexed.is_none() {
                continue;
            }
            let query = Clusters::values_query(series, label);
            refuse(match self.query(&query, PATIENCE).await {
                Ok(found) => {
                    let values = found.into_iter();
                    let values = values.filter_map(|mut one| one.labels.remove(label));
                    Clusters::of(label, values)
                }
                // Too many series to count: more than a store of one cluster has.
                Err(error) if error.excess().is_some() => indexed,
                Err(error) => return Err(error),
            })?;
        }
        let query = Clusters::equal_names_query(series);
        match self.query(&query, PATIENCE).await {
            Ok(found) => {
                let labels: Vec<_> = found.into_iter().map(|one| one.labels).collect();
                refuse(Clusters::of_equal_names(series, &self.matchers, &labels))
            }
            Err(error) if error.excess().is_some() => {
                tracing::debug!(error = with_causes(&error), "containers are not compared");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// Check of a store whose usage a program does not read otherwise, at most once in ten minutes.
#[derive(Debug, Default)]
pub struct ClusterCheck(Mutex<Option<(Option<Clusters>, Instant)>>);

impl ClusterCheck {
    /// Refuses a store with present usage of several clusters. One without usage, or that does not
    /// answer, passes.
    pub async fn run(&self, store: &Prometheus, now: Timestamp) -> Result<(), PrometheusError> {
        let mut last = self.0.lock().await;
        let is_due = last.as_ref().is_none_or(|(_, end)| *end <= Instant::now());
        if is_due {
            let (clusters, lasts) = match check(store, now).await {
                Ok(()) => (None, LASTS),
                Err(PrometheusError::SeveralClusters(clusters)) => (Some(clusters), RETRY),
                Err(error) => {
                    tracing::warn!(
                        error = with_causes(&error),
                        "cannot check whether Prometheus has several clusters"
                    );
                    (None, RETRY)
                }
            };
            *last = Some((clusters, Instant::now() + lasts));
        }
        match &*last {
            Some((Some(clusters), _)) => Err(PrometheusError::SeveralClusters(clusters.clone())),
            _ => Ok(()),
        }
    }
}

async fn check(store: &Prometheus, now: Timestamp) -> Result<(), PrometheusError> {
    let start = now.saturating_sub(SignedDuration::from_millis(RECENT_MS));
    let step = "1m".parse().ok();
    let window = step.and_then(|step| Window::new(start.ok()?, now, step));
    let Some(window) = window else { return Ok(()) };
    let usage = UsageSettings::default();
    let candidates = [usage.cpu_candidates(), usage.memory_candidates()].concat();
    let selector = |one: &UsageSeries| Some(usage_selector(one, None));
    match store.first(candidates, selector, window).await? {
        Some(series) => store.refuse_several_clusters(&series, window).await,
        None => Ok(()),
    }
}

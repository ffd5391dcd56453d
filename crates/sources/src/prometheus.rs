//! Usage history and current values of any query, from stores with the HTTP API of Prometheus,
//! including Thanos and Mimir.
//!
//! Every response is limited in time and size: ranges of usage are read in pieces, and a piece that
//! exceeds a limit is halved. The series of usage and pod labels are detected unless configured. A
//! store with several clusters is refused, unless each query has matchers for one. No retries here:
//! the caller does.

mod args;
mod client_config;
mod clusters;
mod connection;
mod error;
pub(crate) mod http;
mod instant_response;
mod range_response;
mod time_range;

use std::collections::{BTreeMap, HashMap};

use model::{ContainerRef, Series};

pub use args::{PrometheusArgs, PrometheusClientArgs};
pub use client_config::PrometheusClient;
pub use clusters::ClusterCheck;
pub use connection::{Connection, Credentials, Secret, headers};
pub use error::{Detail, PrometheusError};
pub use http::{Exchange, Observer, Prometheus};
pub use instant_response::{InstantSample, SeriesShape};
pub use promql::{
    ConfineError, Excess, Layout, Matchers, NameError, PodLabelSeries, PodLabelSettings, Step,
    UsageSeries, UsageSettings, confine, is_label_name, is_metric_name, literal, matcher, sum,
    workload_usage,
};
pub use range_response::Labelled;
pub use time_range::Window;

use crate::error_chain::with_causes;
use http::MAX_BYTES;
use promql::query;
use time_range::Pieces;

/// Maximum size of an expression's response in bytes. Ten series of 2000 points have half of that.
const MAX_EXPRESSION_BYTES: usize = 2 << 20;
/// Maximum number of series in an expression's response. With the fewest points they fit its bytes.
const MAX_EXPRESSION_SERIES: usize = 1000;
/// Maximum number of series in one response: a short one takes about twenty times its text. More
/// containers than run in one namespace.
const MAX_PIECE_SERIES: usize = 100_000;
/// Maximum number of pods of one namespace whose labels are kept, those that were seen last.
const MAX_PODS: usize = 20_000;
/// Maximum number of halvings after a timeout. Each attempt costs the store the full query timeout.
const MAX_TIMEOUTS: usize = 2;

#[derive(Debug, Clone)]
pub struct HistorySettings {
    pub connection: Connection,
    pub usage: UsageSettings,
    pub pod_labels: PodLabelSettings,
    pub length: Step,
    /// Distance of its points.
    pub resolution: Step,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ContainerSeries {
    pub container: ContainerRef,
    /// Cores or bytes over time.
    pub usage: Series,
}

/// Pod labels as in the store, by the pod's name.
pub type PodLabels = HashMap<String, BTreeMap<String, String>>;

impl Prometheus {
    /// Detects the series of usage and pod labels in a time range. Usage of several clusters is an
    /// error.
    pub async fn detect(
        &self,
        usage: &UsageSettings,
        pod_labels: &PodLabelSettings,
        window: Window,
    ) -> Result<Layout, PrometheusError> {
        let selector = |one: &UsageSeries| Some(query::usage_selector(one, None));
        let cpu = self.first(usage.cpu_candidates(), selector, window);
        let cpu = cpu.await?;
        let memory = self.first(usage.memory_candidates(), selector, window);
        let memory = memory.await?;
        if cpu.is_none() && memory.is_none() {
            let candidates = [usage.cpu_candidates(), usage.memory_candidates()].concat();
            let tried: Vec<_> = candidates.iter().filter_map(selector).collect();
            let tried = tried.join(" ");
            return Err(PrometheusError::NoSeries { tried });
        }
        if let Some(series) = cpu.as_ref().or(memory.as_ref()) {
            self.refuse_several_clusters(series, window).await?;
        }
        let selector = |one: &PodLabelSeries| query::pod_label_selector(one, None);
        let pod_labels = self.first(pod_labels.candidates(), selector, window);
        Ok(Layout {
            cpu,
            memory,
            pod_labels: pod_labels.await?,
        })
    }

    /// Reads the usage of all containers of a namespace, piece by piece in order of time.
    pub async fn read_usage(
        &self,
        series: &UsageSeries,
        namespace: &str,
        window: Window,
        mut take: impl FnMut(ContainerSeries),
    ) -> Result<(), PrometheusError> {
        let query = query::usage(series, namespace, window.step);
        self.read_pieces(&query, window, |found| {
            found
                .into_iter()
                .filter_map(|found| container_series(series, namespace, found))
                .for_each(&mut take);
        })
        .await
    }

    /// Reads the pod labels of a namespace; the most recent ones count. Of too many pods those seen
    /// last are kept, so that the pods of a tenant's jobs do not take all memory.
    pub async fn read_pod_labels(
        &self,
        series: &PodLabelSeries,
        namespace: &str,
        window: Window,
    ) -> Result<PodLabels, PrometheusError> {
        let query = query::pod_labels(series, namespace, window.step);
        let mut newest = NewestLabels::new();
        let mut dropped = 0;
        self.read_pieces(&query, window, |found| {
            for found in found {
                keep_newest(&mut newest, series, namespace, &found);
                if newest.len() > 2 * MAX_PODS {
                    dropped += drop_oldest(&mut newest);
                }
            }
        })
        .await?;
        dropped += drop_oldest(&mut newest);
        if dropped > 0 {
            tracing::warn!(
                namespace,
                dropped,
                "history leaves out the oldest deleted pods"
            );
        }
        Ok(newest
            .into_iter()
            .map(|(pod, (_, labels))| (pod, labels))
            .collect())
    }

    /// Reads the series of an expression with one request. The caller divides a long range into
    /// windows, and requests less after an [`Excess`](PrometheusError::excess).
    pub async fn read_expression(
        &self,
        expression: &str,
        window: Window,
    ) -> Result<Vec<Labelled>, PrometheusError> {
        self.query_range::<MAX_EXPRESSION_SERIES>(expression, window, MAX_EXPRESSION_BYTES)
            .await
    }

    /// The first candidate that has series. One without a selector cannot be looked up and is used
    /// unchanged.
    async fn first<T>(
        &self,
        candidates: Vec<T>,
        selector: impl Fn(&T) -> Option<String>,
        window: Window,
    ) -> Result<Option<T>, PrometheusError> {
        for candidate in candidates {
            let has_series = match selector(&candidate) {
                Some(selector) => self.has_series(&selector, window).await?,
                None => true,
            };
            if has_series {
                return Ok(Some(candidate));
            }
        }
        Ok(None)
    }

    async fn read_pieces(
        &self,
        query: &str,
        window: Window,
        mut take: impl FnMut(Vec<Labelled>),
    ) -> Result<(), PrometheusError> {
        let mut pieces = Pieces::of(window);
        let mut timeouts = 0;
        while let Some(piece) = pieces.next() {
            let found = self.query_range::<MAX_PIECE_SERIES>(query, piece, MAX_BYTES);
            match found.await {
                Ok(found) => {
                    pieces.done(piece);
                    take(found);
                }
                Err(error) => {
                    let excess = error.excess();
                    timeouts += usize::from(excess == Some(Excess::Time));
                    if excess.is_none() || timeouts > MAX_TIMEOUTS || !pieces.halve() {
                        return Err(error);
                    }
                    tracing::debug!(error = with_causes(&error), "halving the size of queries");
                }
            }
        }
        Ok(())
    }
}

fn container_series(
    series: &UsageSeries,
    namespace: &str,
    found: Labelled,
) -> Option<ContainerSeries> {
    let label = |name: &str| found.labels.get(name).filter(|value| !value.is_empty());
    let container = ContainerRef {
        namespace: namespace.to_owned(),
        pod: label(&series.pod_label)?.clone(),
        container: label(&series.container_label)?.clone(),
    };
    Some(ContainerSeries {
        container,
        usage: found.series,
    })
}

/// Labels by the pod's name, with the time at which they were seen last.
type NewestLabels = HashMap<String, (jiff::Timestamp, BTreeMap<String, String>)>;

/// Drops the pods that were not seen for longest, above [`MAX_PODS`]. Returns their number.
fn drop_oldest(newest: &mut NewestLabels) -> usize {
    let excess = newest.len().saturating_sub(MAX_PODS);
    let seen = newest.iter().map(|(pod, (last, _))| (*last, pod.clone()));
    let mut seen: Vec<_> = seen.collect();
    seen.sort_unstable();
    for (_, pod) in seen.into_iter().take(excess) {
        newest.remove(&pod);
    }
    excess
}

/// A pod may have changed its labels, or another pod may have had its name.
fn keep_newest(
    newest: &mut NewestLabels,
    names: &PodLabelSeries,
    namespace: &str,
    found: &Labelled,
) {
    let label = |name: &str| found.labels.get(name).map(String::as_str);
    let Some((last, _)) = found.series.points().last().copied() else {
        return;
    };
    let Some(pod) = label(&names.pod_label).filter(|pod| !pod.is_empty()) else {
        return;
    };
    if label(&names.namespace_label) != Some(namespace) {
        return;
    }
    if newest.get(pod).is_none_or(|(seen, _)| *seen <= last) {
        let own_name = |name: &str| {
            let mut prefixes = names.prefixes.iter();
            let own = prefixes.find_map(|prefix| name.strip_prefix(&**prefix))?;
            (!own.is_empty()).then(|| own.to_owned())
        };
        let own = found.labels.iter();
        let labels = own.filter_map(|(name, value)| Some((own_name(name)?, value.clone())));
        let labels = labels.collect();
        newest.insert(pod.to_owned(), (last, labels));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(labels: &[(&str, &str)], second: i64) -> Labelled {
        let at = jiff::Timestamp::from_second(second).expect("in range");
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Labelled {
            labels,
            series: Series::new(vec![(at, 1.0)]),
        }
    }

    #[test]
    fn the_labels_seen_last_count() {
        let names = PodLabelSettings::default().candidates().remove(1);
        assert_eq!(
            [&names.prefixes[0], &names.pod_label],
            ["label_", "exported_pod"]
        );
        let mut newest = HashMap::new();
        for (app, second) in [("old", 10), ("new", 30), ("older", 5)] {
            let labels = [
                ("exported_namespace", "shop"),
                ("exported_pod", "web-1"),
                ("label_app", app),
                ("job", "ksm"),
            ];
            keep_newest(&mut newest, &names, "shop", &found(&labels, second));
        }
        for namespace in ["shop", "other"] {
            let found = found(&[("exported_namespace", "shop")], 50);
            keep_newest(&mut newest, &names, namespace, &found);
        }
        assert_eq!(newest.len(), 1);
        let expected = BTreeMap::from([("app".to_owned(), "new".to_owned())]);
        assert_eq!(newest["web-1"].1, expected);
    }
}

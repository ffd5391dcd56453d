//! Backfill of usage history from Prometheus, in the background, retried until it succeeds.
//!
//! Usage is recorded from the start; history ends there and is merged before it. Namespaces are
//! fetched one by one, when their first object appears, so that no query spans the whole cluster.
//! Every replica does this, so that a new leader is warm.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use runtime::Backoff;
use runtime::metrics::count;
use sources::error_chain::with_causes;
use sources::prometheus::{
    ContainerSeries, HistorySettings, Layout, PodLabels, Prometheus, PrometheusError, Window,
};
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::ingest::SharedState;
use crate::metrics::HistoryMetrics;

use vertical::backfill::{FetchFailures, HistoryGap, Resource};

/// Pauses between attempts, without end.
const BACKOFF: Backoff = Backoff {
    initial: Duration::from_secs(1),
    cap: Duration::from_mins(1),
    tries: u32::MAX,
};

/// Task that fetches history as objects need it.
pub(crate) struct HistoryBackfill {
    pub(crate) settings: HistorySettings,
    pub(crate) shared: SharedState,
    pub(crate) metrics: HistoryMetrics,
}

impl HistoryBackfill {
    /// Runs until the state has no writer.
    pub(crate) async fn run(self) {
        let mut revisions = self.shared.revisions();
        let (mut failures, mut by_gap) = (0, FetchFailures::default());
        let mut delays = BACKOFF.delays();
        loop {
            revisions.mark_unchanged();
            let gaps = block_in_place(|| self.shared.lock().missing_history(Timestamp::now()));
            self.metrics.pending.set(count(gaps.len()));
            if gaps.is_empty() {
                if revisions.changed().await.is_err() {
                    return;
                }
                continue;
            }
            match self.backfill(gaps, &mut by_gap).await {
                Ok(()) => {
                    failures = 0;
                    delays = BACKOFF.delays();
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(
                        error = with_causes(&error),
                        failures,
                        "cannot fetch history; keeping earlier recommendations and retrying"
                    );
                    block_in_place(|| self.shared.lock().history_failed(error.to_string()));
                    self.shared.changed();
                    sleep(delays.next().unwrap_or(BACKOFF.cap)).await;
                }
            }
        }
    }

    async fn backfill(
        &self,
        gaps: Vec<HistoryGap>,
        failures: &mut FetchFailures,
    ) -> Result<(), PrometheusError> {
        let store = Prometheus::connect(&self.settings.connection, self.metrics.observer()).await?;
        let now = Timestamp::now();
        let Some(whole) = self.window(now, now) else {
            return Ok(());
        };
        let layout = store
            .detect(&self.settings.usage, &self.settings.pod_labels, whole)
            .await?;
        tracing::info!(?layout, namespaces = gaps.len(), "fetching history");
        let (mut round, mut first) = (failures.begin(gaps), None);
        while let Some(gap) = round.next_gap() {
            let began = Instant::now();
            let filled = self.backfill_namespace(&store, &layout, &gap, now).await;
            self.metrics.fetched(filled.is_ok());
            if let Err(error) = filled {
                tracing::debug!(
                    namespace = gap.namespace,
                    error = with_causes(&error),
                    "cannot fetch the history of a namespace"
                );
                round.failed(gap, began.elapsed());
                first.get_or_insert(error);
            }
        }
        first.map_or(Ok(()), Err)
    }

    async fn backfill_namespace(
        &self,
        store: &Prometheus,
        layout: &Layout,
        gap: &HistoryGap,
        now: Timestamp,
    ) -> Result<(), PrometheusError> {
        let Some(window) = self.window(now, gap.fetch_until(now)) else {
            block_in_place(|| self.shared.lock().no_history(gap));
            self.shared.changed();
            return Ok(());
        };
        let namespace = gap.namespace.as_str();
        let labels = match &layout.pod_labels {
            Some(series) => store.read_pod_labels(series, namespace, window).await?,
            None => PodLabels::new(),
        };
        let mut rebuild = block_in_place(|| self.shared.lock().rebuild(gap, labels));
        for (series, resource) in [
            (&layout.cpu, Resource::Cpu),
            (&layout.memory, Resource::Memory),
        ] {
            if let Some(series) = series {
                let take = |found: ContainerSeries| {
                    block_in_place(|| rebuild.add(resource, &found.container, &found.usage, now));
                };
                store.read_usage(series, namespace, window, take).await?;
            }
        }
        let (earlier, stats) = block_in_place(|| rebuild.finish());
        tracing::info!(
            namespace,
            samples = stats.samples,
            unattributed = stats.unattributed,
            "fetched history"
        );
        self.metrics.samples.inc_by(stats.samples);
        block_in_place(|| self.shared.lock().add_history(gap, &earlier, now));
        self.shared.changed();
        Ok(())
    }

    /// The window to query at `now` for a history that ends at `end`; `None` if that is before the
    /// configured length.
    fn window(&self, now: Timestamp, end: Timestamp) -> Option<Window> {
        let length = SignedDuration::from_millis(self.settings.length.milliseconds());
        let start = now.checked_sub(length).unwrap_or(Timestamp::MIN);
        Window::new(start, end, self.settings.resolution)
    }
}

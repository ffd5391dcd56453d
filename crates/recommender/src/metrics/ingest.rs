//! Metrics of the ingestion: samples, OOM kills, checkpoints, and the histories that they become.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use prometheus::{Gauge, IntCounterVec, IntGauge, Registry};
use runtime::metrics::register_on_scrape;
use runtime::{StepLatency, metrics};
use vertical::recommender_state::{Ingested, OomKillCounts};

use super::quality::Quality;

/// The label that upstream gives responses of the metrics API.
const CLIENT_NAME: &str = "default-metrics-client";

metrics! {
    struct Rows {
        histories: IntGauge = "vpa_recommender_aggregate_container_states_count",
            "Number of container histories: one per container name and set of pod labels.";
        responses: IntCounterVec { is_error: ["true", "false"], client_name: [CLIENT_NAME] }
            = "vpa_recommender_metric_server_responses", "Responses of the metrics API.";
        samples: IntCounterVec { result: ["accepted", "repeated", "unknown_container", "future"] }
            = "vpa_recommender_usage_samples_total", "Usage samples by result.";
        oom_kills: IntCounterVec { result: ["accepted", "refused", "stored", "dropped"] }
            = "vpa_recommender_oom_kills_total", "OOM kills by result.";
        checkpoints: IntCounterVec { result: ["loaded", "refused"] }
            = "vpa_recommender_checkpoints_loaded_total",
            "Checkpoints by result of loading them.";
    }
}

#[derive(Debug, Clone)]
pub(crate) struct IngestMetrics {
    pub(crate) steps: StepLatency,
    rows: Rows,
    source: SourceFreshness,
    /// Samples and OOM kills compared with what was recommended.
    pub(crate) quality: Quality,
}

impl IngestMetrics {
    pub(super) fn register(
        registry: &Registry,
        steps: StepLatency,
        quality: Quality,
    ) -> Result<Self, prometheus::Error> {
        Ok(Self {
            steps,
            rows: Rows::register(registry)?,
            source: SourceFreshness::register(registry)?,
            quality,
        })
    }

    /// Records whether the source of usage answered.
    pub(crate) fn source_read(&self, succeeded: bool) {
        self.rows
            .responses
            .with_label_values(&[if succeeded { "false" } else { "true" }, CLIENT_NAME])
            .inc();
        self.source.read(succeeded, Instant::now());
    }

    pub(crate) fn ingested(&self, ingested: Ingested) {
        let counts = [
            ("accepted", ingested.accepted),
            ("repeated", ingested.repeated),
            ("unknown_container", ingested.unknown),
            ("future", ingested.future),
        ];
        count(
            &self.rows.samples,
            counts.map(|(name, count)| (name, count as u64)),
        );
    }

    pub(crate) fn oom_kills(&self, kills: OomKillCounts) {
        let counts = [
            ("accepted", kills.accepted),
            ("refused", kills.refused),
            ("stored", kills.stored),
        ];
        count(&self.rows.oom_kills, counts);
    }

    /// Counts an OOM kill that was dropped because the queue is full.
    pub(crate) fn oom_kill_dropped(&self) {
        count(&self.rows.oom_kills, [("dropped", 1)]);
    }

    pub(crate) fn checkpoints_loaded(&self, accepted: usize, refused: usize) {
        let counts = [("loaded", accepted as u64), ("refused", refused as u64)];
        count(&self.rows.checkpoints, counts);
    }

    pub(crate) fn histories(&self, histories: usize) {
        self.rows.histories.set(metrics::count(histories));
    }
}

/// Adds to the series of some results.
fn count<const N: usize>(counter: &IntCounterVec, counts: [(&str, u64); N]) {
    for (result, count) in counts {
        counter.with_label_values(&[result]).inc_by(count);
    }
}

metrics! {
    struct SourceRow {
        stale: Gauge = "vpa_recommender_metrics_source_stale_seconds",
            "Seconds since the source of usage last responded; 0 while it responds. Recommendations are frozen meanwhile.";
    }
}

/// Seconds since the last successful answer; 0 while the last answer was successful. Before the
/// first answer it counts from the start.
#[derive(Debug, Clone)]
struct SourceFreshness(Arc<Mutex<(Instant, bool)>>);

impl SourceFreshness {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((Instant::now(), false))))
    }

    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let source = Self::new();
        let (row, state) = (SourceRow::new()?, source.clone());
        register_on_scrape(registry, row.collectors(), move || {
            row.stale.set(state.stale_seconds(Instant::now()));
        })?;
        Ok(source)
    }

    fn read(&self, succeeded: bool, now: Instant) {
        let (last_good, is_good) = &mut *self.0.lock();
        *is_good = succeeded;
        if succeeded {
            *last_good = now;
        }
    }

    fn stale_seconds(&self, now: Instant) -> f64 {
        match *self.0.lock() {
            (_, true) => 0.0,
            (last_good, false) => now.saturating_duration_since(last_good).as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn staleness_counts_from_the_last_good_answer() {
        let source = SourceFreshness::new();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let check = |second, expected: f64| {
            assert!((source.stale_seconds(after(second)) - expected).abs() < 1e-9);
        };
        source.read(true, after(10));
        check(50, 0.0);
        source.read(false, after(60));
        source.read(false, after(70));
        check(75, 65.0);
        source.read(true, after(80));
        check(90, 0.0);
    }

    #[test]
    fn a_source_that_never_answered_is_stale() {
        let source = SourceFreshness::new();
        assert!(source.stale_seconds(Instant::now() + Duration::from_secs(5)) >= 5.0);
    }
}

//! Metrics of the ingestion: samples, OOM kills, checkpoints, and the histories that they become.

use std::time::Instant;

use prometheus::{IntCounterVec, IntGauge, Registry};
use runtime::{StepLatency, Steps, metrics};
use vertical::recommender_state::{Ingested, OomKillCounts};

use super::quality::Quality;
use super::source_freshness::SourceFreshness;

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

/// Metrics of the ingestion. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct IngestMetrics {
    steps: StepLatency,
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

    /// Starts measuring the steps of one round.
    pub(crate) fn steps(&self) -> Steps {
        self.steps.start()
    }

    /// Records whether the source of usage answered.
    pub(crate) fn source_read(&self, succeeded: bool) {
        self.rows
            .responses
            .with_label_values(&[if succeeded { "false" } else { "true" }, CLIENT_NAME])
            .inc();
        self.source.read(succeeded, Instant::now());
    }

    /// Counts a batch of samples.
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

    /// Counts OOM kills.
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

    /// Counts checkpoints that were loaded or refused.
    pub(crate) fn checkpoints_loaded(&self, accepted: usize, refused: usize) {
        let counts = [("loaded", accepted as u64), ("refused", refused as u64)];
        count(&self.rows.checkpoints, counts);
    }

    /// Sets the number of histories.
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

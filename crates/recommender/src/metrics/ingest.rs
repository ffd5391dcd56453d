//! Metrics of the ingestion: samples, OOM kills, checkpoints, and the histories that they become.

use std::time::Instant;

use prometheus::core::Collector;
use prometheus::{IntCounterVec, IntGauge, Opts};
use vertical::state::{Ingested, OomKillCounts};

use super::quality::Quality;
use super::source::SourceFreshness;
use super::steps::{StepLatency, Steps};

/// The label that upstream gives responses of the metrics API.
const CLIENT_NAME: &str = "default-metrics-client";

/// Metrics of the ingestion. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct IngestMetrics {
    steps: StepLatency,
    histories: IntGauge,
    responses: IntCounterVec,
    samples: IntCounterVec,
    oom_kills: IntCounterVec,
    checkpoints: IntCounterVec,
    source: SourceFreshness,
    /// Samples and OOM kills compared with what was recommended.
    pub(crate) quality: Quality,
}

impl IngestMetrics {
    pub(super) fn new(steps: StepLatency, quality: Quality) -> Result<Self, prometheus::Error> {
        let counter =
            |name, help, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels);
        let metrics = Self {
            steps,
            histories: IntGauge::new(
                "vpa_recommender_aggregate_container_states_count",
                "Number of container histories: one per container name and set of pod labels.",
            )?,
            responses: counter(
                "vpa_recommender_metric_server_responses",
                "Responses of the metrics API.",
                &["is_error", "client_name"],
            )?,
            samples: counter(
                "vpa_recommender_usage_samples_total",
                "Usage samples by result.",
                &["result"],
            )?,
            oom_kills: counter(
                "vpa_recommender_oom_kills_total",
                "OOM kills by result.",
                &["result"],
            )?,
            checkpoints: counter(
                "vpa_recommender_checkpoints_loaded_total",
                "Checkpoints by result of loading them.",
                &["result"],
            )?,
            source: SourceFreshness::new()?,
            quality,
        };
        metrics.start_at_zero();
        Ok(metrics)
    }

    pub(super) fn collectors(&self) -> [Box<dyn Collector>; 6] {
        [
            Box::new(self.histories.clone()),
            Box::new(self.responses.clone()),
            Box::new(self.samples.clone()),
            Box::new(self.oom_kills.clone()),
            Box::new(self.checkpoints.clone()),
            Box::new(self.source.clone()),
        ]
    }

    /// Creates every series: a rate needs a first value, also for outcomes that never happen.
    fn start_at_zero(&self) {
        for is_error in ["true", "false"] {
            self.responses.with_label_values(&[is_error, CLIENT_NAME]);
        }
        self.ingested(Ingested::default());
        self.oom_kills(OomKillCounts::default());
        self.oom_kills.with_label_values(&["dropped"]);
        self.checkpoints_loaded(0, 0);
    }

    /// Starts measuring the steps of one round.
    pub(crate) fn steps(&self) -> Steps {
        self.steps.start()
    }

    /// Records whether the source of usage answered.
    pub(crate) fn source_read(&self, succeeded: bool) {
        self.responses
            .with_label_values(&[if succeeded { "false" } else { "true" }, CLIENT_NAME])
            .inc();
        self.source.read(succeeded, Instant::now());
    }

    /// Counts a batch of samples.
    pub(crate) fn ingested(
        &self,
        Ingested {
            accepted,
            repeated,
            unknown,
            future,
        }: Ingested,
    ) {
        for (result, count) in [
            ("accepted", accepted),
            ("repeated", repeated),
            ("unknown_container", unknown),
            ("future", future),
        ] {
            self.samples
                .with_label_values(&[result])
                .inc_by(count as u64);
        }
    }

    /// Counts OOM kills.
    pub(crate) fn oom_kills(
        &self,
        OomKillCounts {
            accepted,
            refused,
            stored,
        }: OomKillCounts,
    ) {
        for (result, count) in [
            ("accepted", accepted),
            ("refused", refused),
            ("stored", stored),
        ] {
            self.oom_kills.with_label_values(&[result]).inc_by(count);
        }
    }

    /// Counts an OOM kill that was dropped because the queue is full.
    pub(crate) fn oom_kill_dropped(&self) {
        self.oom_kills.with_label_values(&["dropped"]).inc();
    }

    /// Counts checkpoints that were loaded or refused.
    pub(crate) fn checkpoints_loaded(&self, accepted: usize, refused: usize) {
        for (result, count) in [("loaded", accepted), ("refused", refused)] {
            self.checkpoints
                .with_label_values(&[result])
                .inc_by(count as u64);
        }
    }

    /// Sets the number of histories.
    pub(crate) fn histories(&self, count: usize) {
        self.histories.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

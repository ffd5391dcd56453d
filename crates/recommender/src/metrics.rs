//! What is measured about the recommender. Names, labels and buckets are upstream's where it has
//! the same thing (`pkg/utils/metrics/recommender/recommender.go`); the others say whether what it
//! knows is current.

mod caps;
mod checkpoints;
mod crane;
mod forecasts;
mod freshness;
#[cfg(test)]
mod golden;
mod history;
mod objects;
mod policies;
mod quality;
mod recommendations;
mod source;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};
use tokio::sync::watch;
use view::{Autoscaler, View};

use crate::act::Outcome;
use crate::state::{Decision, Ingested, KillCount};
use caps::Caps;
use checkpoints::Checkpoints;
pub(crate) use crane::CraneMetrics;
pub(crate) use forecasts::ForecastMetrics;
use freshness::WatchFreshness;
pub use history::HistoryMetrics;
use policies::PolicyMetrics;
pub(crate) use quality::Changes;
use quality::Quality;
use recommendations::Recommendations;
use source::SourceFreshness;

const LATENCY_BUCKETS: [f64; 19] = [
    1.0, 2.0, 5.0, 7.5, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 90.0, 120.0, 150.0, 180.0, 240.0,
    300.0, 600.0, 900.0, 1800.0,
];
const STEP_BUCKETS: [f64; 22] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0,
    90.0, 100.0, 120.0, 150.0, 240.0,
];
/// The label that upstream gives answers of the metrics API.
const CLIENT_NAME: &str = "default-metrics-client";

/// All metrics of the recommender. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    objects: IntGaugeVec,
    recommendation_latency: Histogram,
    steps: HistogramVec,
    histories: IntGauge,
    answers: IntCounterVec,
    samples: IntCounterVec,
    kills: IntCounterVec,
    writes: IntCounterVec,
    source: SourceFreshness,
    caps: Caps,
    /// What becomes of checkpoints.
    pub(crate) checkpoints: Checkpoints,
    /// Fetching of history.
    pub history: HistoryMetrics,
    /// What becomes of sizing policies.
    pub(crate) policies: PolicyMetrics,
    /// Predictions.
    pub(crate) forecasts: ForecastMetrics,
    /// How good recommendations are.
    pub(crate) quality: Quality,
    /// Recommendations, where they are shown.
    recommendations: Option<Recommendations>,
}

impl Metrics {
    /// Adds the metrics to a registry. `views` are asked for the state of their watches whenever
    /// metrics are read.
    pub fn register(
        registry: &Registry,
        views: Vec<watch::Receiver<View>>,
    ) -> Result<Self, prometheus::Error> {
        let counter =
            |name, help, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels);
        let latency = HistogramOpts::new(
            "vpa_recommender_recommendation_latency_seconds",
            "Time from the creation of a VPA object to its first recommendation.",
        );
        let steps = HistogramOpts::new(
            "vpa_recommender_execution_latency_seconds",
            "Time spent in the steps of the main loop.",
        );
        let metrics = Self {
            objects: IntGaugeVec::new(
                Opts::new(
                    "vpa_recommender_vpa_objects_count",
                    "Number of VPA objects this recommender is in charge of.",
                ),
                &objects::LABELS,
            )?,
            recommendation_latency: Histogram::with_opts(
                latency.buckets(LATENCY_BUCKETS.to_vec()),
            )?,
            steps: HistogramVec::new(
                steps.buckets([&STEP_BUCKETS[..], &[300.0]].concat()),
                &["step"],
            )?,
            histories: IntGauge::new(
                "vpa_recommender_aggregate_container_states_count",
                "Number of histories of like containers.",
            )?,
            answers: counter(
                "vpa_recommender_metric_server_responses",
                "Answers of the metrics API.",
                &["is_error", "client_name"],
            )?,
            samples: counter(
                "vpa_recommender_usage_samples_total",
                "Usage samples by what became of them.",
                &["result"],
            )?,
            kills: counter(
                "vpa_recommender_oom_kills_total",
                "Kills for want of memory by what became of them.",
                &["result"],
            )?,
            writes: counter(
                "vpa_recommender_status_writes_total",
                "Writes of the status of VPA objects by what became of them.",
                &["result"],
            )?,
            source: SourceFreshness::new()?,
            caps: Caps::new()?,
            checkpoints: Checkpoints::new()?,
            history: HistoryMetrics::new()?,
            policies: PolicyMetrics::new()?,
            forecasts: ForecastMetrics::new()?,
            quality: Quality::new()?,
            recommendations: None,
        };
        metrics.start_at_zero();
        let all: [Box<dyn Collector>; 12] = [
            Box::new(metrics.objects.clone()),
            Box::new(metrics.recommendation_latency.clone()),
            Box::new(metrics.steps.clone()),
            Box::new(metrics.histories.clone()),
            Box::new(metrics.answers.clone()),
            Box::new(metrics.samples.clone()),
            Box::new(metrics.kills.clone()),
            Box::new(metrics.writes.clone()),
            Box::new(metrics.source.clone()),
            Box::new(metrics.caps.collector()),
            Box::new(metrics.checkpoints.clone()),
            Box::new(WatchFreshness::new(views)?),
        ];
        let others = metrics
            .history
            .collectors()
            .into_iter()
            .chain(metrics.policies.collectors());
        let others = others
            .chain(metrics.quality.collectors())
            .chain(metrics.forecasts.collectors());
        all.into_iter()
            .chain(others)
            .try_for_each(|collector| registry.register(collector))?;
        Ok(metrics)
    }

    /// Adds recommendations to the registry, at most so many series of them.
    pub fn with_recommendations(
        mut self,
        registry: &Registry,
        limit: usize,
    ) -> Result<Self, prometheus::Error> {
        let recommendations = Recommendations::new(limit)?;
        registry.register(Box::new(recommendations.clone()))?;
        self.recommendations = Some(recommendations);
        Ok(self)
    }

    /// Adds Crane's metrics to the registry, at most so many series of them.
    pub(crate) fn with_cranes(
        registry: &Registry,
        limit: usize,
    ) -> Result<CraneMetrics, prometheus::Error> {
        let metrics = CraneMetrics::new(limit)?;
        registry.register(Box::new(metrics.clone()))?;
        Ok(metrics)
    }

    /// A rate needs a first value, also of what never happens.
    fn start_at_zero(&self) {
        for is_error in ["true", "false"] {
            self.answers.with_label_values(&[is_error, CLIENT_NAME]);
        }
        for outcome in Outcome::ALL {
            self.writes.with_label_values(&[outcome.name()]);
        }
        self.ingested(Ingested::default());
        self.kills(KillCount::default());
        self.kills.with_label_values(&["dropped"]);
    }

    /// The source of usage answered, or did not.
    pub fn source_read(&self, succeeded: bool) {
        self.answers
            .with_label_values(&[if succeeded { "false" } else { "true" }, CLIENT_NAME])
            .inc();
        self.source.read(succeeded, Instant::now());
    }

    /// What became of a batch of samples.
    pub fn ingested(
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

    /// What became of kills.
    pub fn kills(
        &self,
        KillCount {
            accepted,
            refused,
            stored,
        }: KillCount,
    ) {
        for (result, count) in [
            ("accepted", accepted),
            ("refused", refused),
            ("stored", stored),
        ] {
            self.kills.with_label_values(&[result]).inc_by(count);
        }
    }

    /// A kill was dropped, because too many wait to be taken up.
    pub fn kill_dropped(&self) {
        self.kills.with_label_values(&["dropped"]).inc();
    }

    /// How many histories there are.
    pub fn histories(&self, count: usize) {
        self.histories.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// What was decided about all objects.
    pub fn decided<'a>(&self, decisions: impl IntoIterator<Item = &'a Decision>) {
        let decisions: Vec<_> = decisions.into_iter().collect();
        self.caps.count(decisions.iter().copied());
        objects::count(&self.objects, decisions.iter().copied());
        if let Some(recommendations) = &self.recommendations {
            recommendations.show(&decisions);
        }
    }

    /// A term of leadership begins; it ends with what is given.
    pub(crate) fn term(&self) -> Term {
        Term(self.recommendations.clone())
    }

    /// What became of one write.
    pub fn written(&self, outcome: Outcome) {
        self.writes.with_label_values(&[outcome.name()]).inc();
    }

    /// An object got its first recommendation at `now`.
    pub fn first_recommendation(&self, autoscaler: &Autoscaler, now: Timestamp) {
        if let Some(created) = &autoscaler.object.metadata.creation_timestamp {
            self.recommendation_latency
                .observe(now.duration_since(created.0).as_secs_f64().max(0.0));
        }
    }

    /// A step outside the main loop took so long.
    pub fn step(&self, step: &str, took: Duration) {
        self.steps
            .with_label_values(&[step])
            .observe(took.as_secs_f64());
    }

    /// Measures the steps of one round.
    pub fn steps(&self) -> Steps<'_> {
        let now = Instant::now();
        Steps {
            metrics: self,
            started: now,
            last: now,
        }
    }
}

/// A term of leadership. Recommendations are shown as long as it lasts: the next leader shows its
/// own.
#[derive(Debug)]
pub(crate) struct Term(Option<Recommendations>);

impl Drop for Term {
    fn drop(&mut self) {
        if let Some(recommendations) = &self.0 {
            recommendations.show(&[]);
        }
    }
}

/// One round of the main loop. Each step lasts from the end of the one before; the total is noted
/// at the end.
#[derive(Debug)]
pub struct Steps<'a> {
    metrics: &'a Metrics,
    started: Instant,
    last: Instant,
}

impl Steps<'_> {
    /// A step has ended.
    pub fn done(&mut self, step: &str) {
        let now = Instant::now();
        self.observe(step, self.last, now);
        self.last = now;
    }

    fn observe(&self, step: &str, from: Instant, to: Instant) {
        self.metrics.step(step, to.duration_since(from));
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        self.observe("total", self.started, Instant::now());
    }
}

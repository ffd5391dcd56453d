//! Metrics of the recommendations that are computed and written.

use jiff::Timestamp;
use prometheus::{
    Histogram, IntCounterVec, IntGaugeVec, Registry, register_histogram_with_registry,
    register_int_counter_vec_with_registry, register_int_gauge_vec_with_registry,
};
use runtime::{GaugeTable, WriteOutcome};
use vertical::hpa_conflict::count_hpa_conflicts;
use vertical::recommender_state::Decision;
use vertical::schedulable::NODE_GROUP_METRICS;
use view::Vpa;

use super::caps::Caps;
use super::objects;
use super::quality::Quality;
use super::recommendations::Recommendations;
use runtime::{StepLatency, Steps};

/// Upstream's buckets of the time to the first recommendation, in seconds.
pub(super) const LATENCY_BUCKETS: [f64; 19] = [
    1.0, 2.0, 5.0, 7.5, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 90.0, 120.0, 150.0, 180.0, 240.0,
    300.0, 600.0, 900.0, 1800.0,
];

/// Metrics of the recommendations. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct PublishMetrics {
    steps: StepLatency,
    objects: IntGaugeVec,
    recommendation_latency: Histogram,
    writes: IntCounterVec,
    caps: Caps,
    hpa_conflicts: IntGaugeVec,
    /// Sums by node group.
    pub(crate) node_groups: GaugeTable<6>,
    /// Recommendations as metrics, if they are asked for.
    recommendations: Option<Recommendations>,
    /// Changes of the recommendations from round to round.
    pub(crate) quality: Quality,
}

impl PublishMetrics {
    pub(super) fn register(
        registry: &Registry,
        steps: StepLatency,
        quality: Quality,
    ) -> Result<Self, prometheus::Error> {
        let metrics = Self {
            steps,
            objects: register_int_gauge_vec_with_registry!(
                "vpa_recommender_vpa_objects_count",
                "Number of VPA objects that this recommender handles.",
                &objects::LABELS,
                registry,
            )?,
            recommendation_latency: register_histogram_with_registry!(
                "vpa_recommender_recommendation_latency_seconds",
                "Time from the creation of a VPA object to its first recommendation.",
                LATENCY_BUCKETS.to_vec(),
                registry,
            )?,
            writes: register_int_counter_vec_with_registry!(
                "vpa_recommender_status_writes_total",
                "Writes of the status of VPA objects by result.",
                &["result"],
                registry,
            )?,
            caps: Caps::register(registry)?,
            hpa_conflicts: register_int_gauge_vec_with_registry!(
                "vpa_recommender_hpa_conflict_objects",
                "VPA objects that size a resource by whose utilization an HPA scales, by handling.",
                &["handling"],
                registry,
            )?,
            node_groups: GaugeTable::register(registry, "group", NODE_GROUP_METRICS)?,
            recommendations: None,
            quality,
        };
        // A rate needs a first value, also for outcomes that never happen.
        for outcome in WriteOutcome::ALL {
            metrics.writes.with_label_values(&[outcome.name()]);
        }
        for (handling, _) in count_hpa_conflicts([]) {
            metrics.hpa_conflicts.with_label_values(&[handling]);
        }
        Ok(metrics)
    }

    pub(super) fn show(&mut self, recommendations: Recommendations) {
        self.recommendations = Some(recommendations);
    }

    /// Starts measuring the steps of one round.
    pub(crate) fn steps(&self) -> Steps {
        self.steps.start()
    }

    /// Sets the gauges to the decisions about all objects.
    pub(crate) fn decided<'a>(&self, decisions: impl IntoIterator<Item = &'a Decision>) {
        let decisions: Vec<_> = decisions.into_iter().collect();
        self.caps.count(decisions.iter().copied());
        let statuses = decisions.iter().map(|decision| &decision.status);
        for (handling, count) in count_hpa_conflicts(statuses) {
            self.hpa_conflicts.with_label_values(&[handling]).set(count);
        }
        objects::count(&self.objects, decisions.iter().copied());
        if let Some(recommendations) = &self.recommendations {
            recommendations.show(&decisions);
        }
    }

    /// Begins a term of leadership, which ends when the returned guard is dropped.
    pub(crate) fn term(&self) -> Term {
        Term(self.recommendations.clone(), self.node_groups.clone())
    }

    /// Counts a write of a status.
    pub(crate) fn written(&self, outcome: WriteOutcome) {
        self.writes.with_label_values(&[outcome.name()]).inc();
    }

    /// Records that an object got its first recommendation at `now`.
    pub(crate) fn first_recommendation(&self, vpa: &Vpa, now: Timestamp) {
        if let Some(created) = &vpa.object.metadata.creation_timestamp {
            self.recommendation_latency
                .observe(now.duration_since(created.0).as_secs_f64().max(0.0));
        }
    }
}

/// Term of leadership. Dropping it removes recommendations and their sums from the metrics: the next
/// leader shows its own.
#[derive(Debug)]
pub(crate) struct Term(Option<Recommendations>, GaugeTable<6>);

impl Drop for Term {
    fn drop(&mut self) {
        self.1.set([]);
        if let Some(recommendations) = &self.0 {
            recommendations.show(&[]);
        }
    }
}

//! Metrics of the recommendations that are computed and written.

use jiff::Timestamp;
use prometheus::{Histogram, IntCounterVec, IntGaugeVec, Registry};
use runtime::{StepLatency, Steps, WriteOutcome};
use vertical::hpa_conflict::count_hpa_conflicts;
use vertical::recommender_state::Decision;
use vertical::schedulable::count_capped;
use view::Vpa;

use super::node_groups::NodeGroups;
use super::objects;
use super::quality::Quality;
use super::recommendations::Recommendations;

/// Upstream's buckets of the time to the first recommendation, in seconds.
pub(super) const LATENCY_BUCKETS: [f64; 19] = [
    1.0, 2.0, 5.0, 7.5, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 90.0, 120.0, 150.0, 180.0, 240.0,
    300.0, 600.0, 900.0, 1800.0,
];

runtime::metrics! {
    struct Rows {
        objects: IntGaugeVec { update_mode, has_recommendation, api, matches_pods, unsupported_config }
            = "vpa_recommender_vpa_objects_count",
            "Number of VPA objects that this recommender handles.";
        recommendation_latency: Histogram [LATENCY_BUCKETS]
            = "vpa_recommender_recommendation_latency_seconds",
            "Time from the creation of a VPA object to its first recommendation.";
        writes: IntCounterVec { result: WriteOutcome::ALL.map(WriteOutcome::name) }
            = "vpa_recommender_status_writes_total",
            "Writes of the status of VPA objects by result.";
        capped: IntGaugeVec { source: count_capped([]).map(|(source, _)| source) }
            = "vpa_recommender_capped_objects",
            "VPA objects whose recommendation is capped to what can be scheduled, by source of the cap.";
        hpa_conflicts: IntGaugeVec { handling: count_hpa_conflicts([]).map(|(handling, _)| handling) }
            = "vpa_recommender_hpa_conflict_objects",
            "VPA objects that size a resource by whose utilization an HPA scales, by handling.";
    }
}

/// Metrics of the recommendations. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct PublishMetrics {
    steps: StepLatency,
    rows: Rows,
    /// Sums by node group.
    pub(crate) node_groups: NodeGroups,
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
        Ok(Self {
            steps,
            rows: Rows::register(registry)?,
            node_groups: NodeGroups::register(registry)?,
            recommendations: None,
            quality,
        })
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
        let statuses = || decisions.iter().map(|decision| &decision.status);
        for (gauge, counts) in [
            (&self.rows.capped, count_capped(statuses())),
            (&self.rows.hpa_conflicts, count_hpa_conflicts(statuses())),
        ] {
            for (label, count) in counts {
                gauge.with_label_values(&[label]).set(count);
            }
        }
        objects::count(&self.rows.objects, decisions.iter().copied());
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
        self.rows.writes.with_label_values(&[outcome.name()]).inc();
    }

    /// Records that an object got its first recommendation at `now`.
    pub(crate) fn first_recommendation(&self, vpa: &Vpa, now: Timestamp) {
        if let Some(created) = &vpa.object.metadata.creation_timestamp {
            self.rows
                .recommendation_latency
                .observe(now.duration_since(created.0).as_secs_f64().max(0.0));
        }
    }
}

/// Term of leadership. Dropping it removes recommendations and their sums from the metrics: the next
/// leader shows its own.
#[derive(Debug)]
pub(crate) struct Term(Option<Recommendations>, NodeGroups);

impl Drop for Term {
    fn drop(&mut self) {
        self.1.set([]);
        if let Some(recommendations) = &self.0 {
            recommendations.show(&[]);
        }
    }
}

//! Metrics of the recommendations that are computed and written.

use std::sync::Arc;

use api::vpa::UpdateMode;
use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus::{GaugeVec, Histogram, IntCounterVec, IntGaugeVec, Registry};
use runtime::metrics::{register_on_scrape, start};
use runtime::{StepLatency, WriteOutcome};
use vertical::hpa_conflict::count_hpa_conflicts;
use vertical::recommender_state::Decision;
use vertical::schedulable::count_capped;
use vertical::status::has_recommendation;
use view::Vpa;

use super::quality::Quality;
use super::recommendations::Recommendations;
use super::{BOOLEANS, boolean, mode, update_mode};

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

#[derive(Debug, Clone)]
pub(crate) struct PublishMetrics {
    pub(crate) steps: StepLatency,
    rows: Rows,
    pub(crate) node_groups: NodeGroups,
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
        count_objects(&self.rows.objects, &decisions);
        if let Some(recommendations) = &self.recommendations {
            recommendations.show(&decisions);
        }
    }

    /// Begins a term of leadership, which ends when the returned guard is dropped.
    pub(crate) fn term(&self) -> Term {
        Term(self.recommendations.clone(), self.node_groups.clone())
    }

    pub(crate) fn written(&self, outcome: WriteOutcome) {
        self.rows.writes.with_label_values(&[outcome.name()]).inc();
    }

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

const MODES: [&str; 6] = [
    "Off",
    "Initial",
    "Recreate",
    "InPlaceOrRecreate",
    "InPlace",
    "Auto",
];
/// Versions of the API in upstream's label. Only the last one is served.
const VERSIONS: [&str; 3] = ["v1beta1", "v1beta2", "v1"];

/// Sets every combination, also those without objects.
fn count_objects(objects: &IntGaugeVec, decisions: &[&Decision]) {
    objects.reset();
    let labels: [&[&str]; 5] = [&MODES, &BOOLEANS, &VERSIONS, &BOOLEANS, &BOOLEANS];
    start(objects, &labels.each_ref().map(std::slice::from_ref));
    for decision in decisions {
        objects
            .with_label_values(&[
                mode(update_mode(decision).unwrap_or(UpdateMode::Recreate)),
                boolean(has_recommendation(Some(&decision.status))),
                "v1",
                boolean(decision.pods > 0),
                boolean(decision.unsupported),
            ])
            .inc();
    }
}

runtime::metrics! {
    struct NodeGroupRows {
        recommended_cpu: GaugeVec { group } = "plimsoll_node_group_recommended_cpu_cores",
            "Sum of the recommended CPU requests of the pods of a node group; present requests where nothing is recommended.";
        recommended_memory: GaugeVec { group } = "plimsoll_node_group_recommended_memory_bytes",
            "Sum of the recommended memory requests of the pods of a node group; present requests where nothing is recommended.";
        requested_cpu: GaugeVec { group } = "plimsoll_node_group_requested_cpu_cores",
            "Sum of the present CPU requests of the pods of a node group.";
        requested_memory: GaugeVec { group } = "plimsoll_node_group_requested_memory_bytes",
            "Sum of the present memory requests of the pods of a node group.";
        allocatable_cpu: GaugeVec { group } = "plimsoll_node_group_allocatable_cpu_cores",
            "Allocatable CPU of the nodes of a node group.";
        allocatable_memory: GaugeVec { group } = "plimsoll_node_group_allocatable_memory_bytes",
            "Allocatable memory of the nodes of a node group.";
    }
}

/// Name of a group, and its values in the order of the rows.
type Totals = (String, [f64; 6]);

/// The values of the last round. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeGroups(Arc<Mutex<Vec<Totals>>>);

impl NodeGroups {
    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let (rows, groups) = (NodeGroupRows::new()?, Self::default());
        let shown = groups.clone();
        register_on_scrape(registry, rows.collectors(), move || {
            rows.reset();
            let gauges = [
                &rows.recommended_cpu,
                &rows.recommended_memory,
                &rows.requested_cpu,
                &rows.requested_memory,
                &rows.allocatable_cpu,
                &rows.allocatable_memory,
            ];
            for (group, values) in &*shown.0.lock() {
                for (gauge, value) in gauges.into_iter().zip(values) {
                    gauge.with_label_values(&[group]).set(*value);
                }
            }
        })?;
        Ok(groups)
    }

    pub(crate) fn set(&self, groups: impl IntoIterator<Item = Totals>) {
        *self.0.lock() = groups.into_iter().collect();
    }
}

//! Requests and allocatable resources of node groups. A scrape shows all groups of one round.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{GaugeVec, Registry};
use runtime::metrics::register_on_scrape;

runtime::metrics! {
    struct Rows {
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
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let (rows, groups) = (Rows::new()?, Self::default());
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

    /// Replaces all groups.
    pub(crate) fn set(&self, groups: impl IntoIterator<Item = Totals>) {
        *self.0.lock() = groups.into_iter().collect();
    }
}

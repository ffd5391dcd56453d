//! Metrics of the load watcher.

use prometheus::{
    Gauge, Histogram, IntCounterVec, IntGauge, IntGaugeVec, Registry, register_gauge_with_registry,
    register_histogram_with_registry, register_int_counter_vec_with_registry,
    register_int_gauge_vec_with_registry, register_int_gauge_with_registry,
};

/// All metrics of the load watcher. Clones share them.
#[derive(Clone)]
pub(super) struct Metrics {
    pub(super) collections: IntCounterVec,
    pub(super) collection_seconds: Histogram,
    pub(super) query_errors: IntCounterVec,
    pub(super) nodes: IntGauge,
    pub(super) nodes_without_load: IntGauge,
    pub(super) newest_sample_age: Gauge,
    pub(super) bad_values: IntGaugeVec,
    pub(super) cache_writes: IntCounterVec,
    pub(super) requests: IntCounterVec,
}

impl Metrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str, label: &str| {
            register_int_counter_vec_with_registry!(name, help, &[label], registry)
        };
        let gauge =
            |name: &str, help: &str| register_int_gauge_with_registry!(name, help, registry);
        Ok(Self {
            collections: counters(
                "plimsoll_load_watcher_collections_total",
                "Collections of the load of nodes by result: success, error.",
                "result",
            )?,
            collection_seconds: register_histogram_with_registry!(
                "plimsoll_load_watcher_collection_duration_seconds",
                "Duration of a collection of the load of nodes in seconds.",
                vec![0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0],
                registry
            )?,
            query_errors: counters(
                "plimsoll_load_watcher_query_errors_total",
                "Failed queries to Prometheus by resource: cpu, memory, network, disk.",
                "resource",
            )?,
            nodes: gauge("plimsoll_load_watcher_nodes", "Nodes of the cluster.")?,
            nodes_without_load: gauge(
                "plimsoll_load_watcher_nodes_without_load",
                "Nodes of the cluster without load in any fresh window.",
            )?,
            newest_sample_age: register_gauge_with_registry!(
                "plimsoll_load_watcher_newest_sample_age_seconds",
                "Age of the newest sample of any node in seconds, at the last collection. +Inf without a sample.",
                registry
            )?,
            bad_values: register_int_gauge_vec_with_registry!(
                "plimsoll_load_watcher_bad_values",
                "Values that the last collection left out, by window and defect: not_finite, out_of_range, frozen, missing.",
                &["window", "defect"],
                registry
            )?,
            cache_writes: counters(
                "plimsoll_load_watcher_cache_writes_total",
                "Writes of the cache on disk by result: success, error, skipped.",
                "result",
            )?,
            requests: counters(
                "plimsoll_load_watcher_requests_total",
                "Requests to the REST API of load-watcher by status code.",
                "code",
            )?,
        })
    }
}

//! Metrics of the load watcher.

use prometheus::{Gauge, IntCounterVec, IntGauge, IntGaugeVec};

runtime::metrics! {
    /// All metrics of the load watcher. Clones share them.
    pub(super) struct Metrics {
        pub(super) collections: IntCounterVec { result }
            = "plimsoll_load_watcher_collections_total",
            "Collections of the load of nodes by result: success, error.";
        pub(super) query_errors: IntCounterVec { resource }
            = "plimsoll_load_watcher_query_errors_total",
            "Failed queries to Prometheus by resource: cpu, memory, network, disk.";
        pub(super) nodes: IntGauge = "plimsoll_load_watcher_nodes", "Nodes of the cluster.";
        pub(super) nodes_without_load: IntGauge = "plimsoll_load_watcher_nodes_without_load",
            "Nodes of the cluster without load in any fresh window.";
        pub(super) newest_sample_age: Gauge = "plimsoll_load_watcher_newest_sample_age_seconds",
            "Age of the newest sample of any node in seconds, at the last collection. +Inf without a sample.";
        pub(super) bad_values: IntGaugeVec { window, defect } = "plimsoll_load_watcher_bad_values",
            "Values that the last collection left out, by window and defect: not_finite, out_of_range, frozen, missing.";
        pub(super) cache_writes: IntCounterVec { result }
            = "plimsoll_load_watcher_cache_writes_total",
            "Writes of the cache on disk by result: success, error, skipped.";
        pub(super) requests: IntCounterVec { code } = "plimsoll_load_watcher_requests_total",
            "Requests to the REST API of load-watcher by status code.";
    }
}

//! Metrics of rebalancing.

use prometheus::{Error, IntCounterVec, IntGauge};
use rollout::{Action, ActionOutcome, ActionReason};

use super::families::Families;

/// The metrics of rebalancing. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct RebalancingMetrics {
    moved: IntCounterVec,
    failed: IntCounterVec,
    hot_nodes: IntGauge,
    load_reads: IntCounterVec,
}

impl RebalancingMetrics {
    pub(super) fn register(families: &Families) -> Result<Self, Error> {
        let metrics = Self {
            moved: families.counter(
                "rebalanced_pods_total",
                "Pods evicted to move them to another node, by reason.",
                &["reason"],
            )?,
            failed: families.counter(
                "failed_rebalancing_attempts_total",
                "Evictions for moves that the API server refused or did not answer, by reason.",
                &["reason"],
            )?,
            hot_nodes: families.number("hot_nodes", "Nodes that are hot.")?,
            load_reads: families.counter(
                "node_load_reads_total",
                "Reads of the node load from the load-watcher, by result.",
                &["result"],
            )?,
        };
        metrics.start_at_zero();
        Ok(metrics)
    }

    /// Creates the series at zero: a rate needs a first value.
    fn start_at_zero(&self) {
        for reason in [ActionReason::HotNode, ActionReason::FragmentedNode] {
            self.moved.with_label_values(&[reason.as_str()]);
            self.failed.with_label_values(&[reason.as_str()]);
        }
        for is_read in [true, false] {
            self.load_reads.with_label_values(&[result(is_read)]);
        }
    }

    /// Counts a read of the node load.
    pub(crate) fn load_read(&self, is_read: bool) {
        self.load_reads.with_label_values(&[result(is_read)]).inc();
    }

    /// Sets the number of hot nodes.
    pub(crate) fn hot_nodes(&self, count: usize) {
        self.hot_nodes.set(super::count(count));
    }

    /// Counts the outcome of a move.
    pub(super) fn finished(&self, action: &Action, outcome: &ActionOutcome) {
        let counter = match outcome {
            ActionOutcome::PodGone => return,
            ActionOutcome::Accepted { .. } => &self.moved,
            _ => &self.failed,
        };
        counter.with_label_values(&[action.reason.as_str()]).inc();
    }

    pub(super) fn stand_down(&self) {
        self.hot_nodes.set(0);
        for counter in [&self.moved, &self.failed, &self.load_reads] {
            counter.reset();
        }
        self.start_at_zero();
    }
}

fn result(is_read: bool) -> &'static str {
    if is_read { "success" } else { "error" }
}

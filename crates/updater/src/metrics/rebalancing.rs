//! Outcomes of moves to other nodes and of rolling updates.

use rollout::{Action, ActionOutcome};
use runtime::metrics::count;

use super::Metrics;
use super::reasons::ERROR;

impl Metrics {
    /// Counts a read of the node load.
    pub(crate) fn load_read(&self, is_read: bool) {
        let result = if is_read { "success" } else { ERROR };
        self.load_reads.with_label_values(&[result]).inc();
    }

    pub(crate) fn hot_nodes(&self, nodes: usize) {
        self.hot_nodes.set(count(nodes));
    }

    pub(super) fn finished_move(&self, action: &Action, outcome: &ActionOutcome) {
        let counter = match outcome {
            ActionOutcome::PodGone => return,
            ActionOutcome::Accepted { .. } => &self.moved,
            _ => &self.failed_moves,
        };
        counter.with_label_values(&[action.reason.as_str()]).inc();
    }

    pub(super) fn finished_rolling_update(&self, outcome: &ActionOutcome) {
        let reason = match outcome {
            ActionOutcome::Accepted { .. } => return self.rolling_updates.inc(),
            ActionOutcome::PodGone => return,
            ActionOutcome::RollingUpdateRefused(refusal) => refusal.as_str(),
            _ => ERROR,
        };
        self.refused_rolling_updates
            .with_label_values(&[reason])
            .inc();
    }
}

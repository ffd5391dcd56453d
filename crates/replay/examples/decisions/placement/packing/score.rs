//! Sums over the slots of a replay.

/// Utilization from which a node is hot, in percent of the CPU.
pub(super) const HOT_PERCENT: f64 = 90.0;
/// Largest utilization of a histogram bucket, in percent.
const LAST_PERCENT: usize = 200;

/// Sums over slots. A node counts in slots in which it has a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PackingScore {
    /// Length of a slot in seconds.
    pub(crate) step: i64,
    pub(crate) slots: u64,
    /// Slots of all nodes with pods.
    pub(crate) node_slots: u64,
    /// Of these, with more than 90 % of CPU in use.
    pub(crate) hot_slots: u64,
    /// Of these, with memory usage above the capacity.
    pub(crate) overflow_slots: u64,
    /// Slots of all pods that are present, running or pending.
    pub(crate) pod_slots: u64,
    pub(crate) pending_slots: u64,
    /// Pods moved since their node had no room for a larger request.
    pub(crate) resize_moves: u64,
    pub(crate) rebalance_moves: u64,
    /// Sums of the CPU utilization in percent and of its square, over the slots of nodes.
    sum: f64,
    sum_of_squares: f64,
    /// Slots of nodes by whole percent of CPU utilization.
    histogram: Vec<u64>,
}

impl PackingScore {
    /// Nothing yet, with slots of this many seconds.
    pub(crate) fn new(step: i64) -> Self {
        Self {
            step,
            histogram: vec![0; LAST_PERCENT + 1],
            ..Self::default()
        }
    }

    /// Adds a slot of a node with pods: CPU utilization in percent, memory usage above capacity.
    pub(super) fn add_node(&mut self, cpu_percent: f64, overflows: bool) {
        self.node_slots += 1;
        self.hot_slots += u64::from(cpu_percent > HOT_PERCENT);
        self.overflow_slots += u64::from(overflows);
        self.sum += cpu_percent;
        self.sum_of_squares += cpu_percent * cpu_percent;
        self.histogram[(cpu_percent as usize).min(LAST_PERCENT)] += 1;
    }

    #[must_use]
    pub(crate) fn plus(mut self, other: &Self) -> Self {
        self.slots += other.slots;
        self.node_slots += other.node_slots;
        self.hot_slots += other.hot_slots;
        self.overflow_slots += other.overflow_slots;
        self.pod_slots += other.pod_slots;
        self.pending_slots += other.pending_slots;
        self.resize_moves += other.resize_moves;
        self.rebalance_moves += other.rebalance_moves;
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
        for (sum, other) in self.histogram.iter_mut().zip(&other.histogram) {
            *sum += other;
        }
        self
    }

    pub(crate) fn hot_percent(&self) -> f64 {
        100.0 * self.hot_slots as f64 / self.node_slots.max(1) as f64
    }

    pub(crate) fn hot_minutes_per_day(&self) -> f64 {
        1440.0 * self.hot_slots as f64 / self.slots.max(1) as f64
    }

    /// Slots with memory overflow in percent of the slots of nodes with pods.
    pub(crate) fn overflow_percent(&self) -> f64 {
        100.0 * self.overflow_slots as f64 / self.node_slots.max(1) as f64
    }

    /// Slots of pending pods in percent of the slots of pods.
    pub(crate) fn pending_percent(&self) -> f64 {
        100.0 * self.pending_slots as f64 / self.pod_slots.max(1) as f64
    }

    /// Mean number of nodes with pods.
    pub(crate) fn nodes_in_use(&self) -> f64 {
        self.node_slots as f64 / self.slots.max(1) as f64
    }

    /// Mean CPU utilization of nodes with pods, in percent.
    pub(crate) fn mean_percent(&self) -> f64 {
        self.sum / self.node_slots.max(1) as f64
    }

    /// Variance of the CPU utilization over the slots of nodes with pods, in percent squared.
    pub(crate) fn variance(&self) -> f64 {
        let mean = self.mean_percent();
        (self.sum_of_squares / self.node_slots.max(1) as f64 - mean * mean).max(0.0)
    }

    /// The 95th percentile of the CPU utilization in whole percent, rounded down.
    pub(crate) fn p95_percent(&self) -> usize {
        let mut below = 0;
        let is_reached = |slots: &u64| {
            below += slots;
            below * 100 >= self.node_slots * 95
        };
        self.histogram.iter().position(is_reached).unwrap_or(0)
    }

    pub(crate) fn moves_per_pod_day(&self) -> (f64, f64) {
        let days = (self.pod_slots as f64 * self.step as f64 / 86_400.0).max(f64::MIN_POSITIVE);
        (
            self.resize_moves as f64 / days,
            self.rebalance_moves as f64 / days,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_slots_of_nodes_with_pods() {
        let mut score = PackingScore::new(300);
        score.slots = 2;
        (score.pod_slots, score.pending_slots) = (576, 6);
        score.resize_moves = 4;
        for (cpu, overflows) in [(90.0, false), (90.1, true), (10.0, false), (9.9, false)] {
            score.add_node(cpu, overflows);
        }
        let twice = score.clone().plus(&score);
        for score in [&score, &twice] {
            let shares = [
                (score.hot_percent(), 25.0),
                (score.overflow_percent(), 25.0),
                (score.nodes_in_use(), 2.0),
                (score.hot_minutes_per_day(), 720.0),
                (score.mean_percent(), 50.0),
                (score.variance(), 1604.005),
                (score.moves_per_pod_day().0, 2.0),
                (score.pending_percent(), 100.0 / 96.0),
            ];
            for (found, expected) in shares {
                assert!((found - expected).abs() < 1e-9, "{found} {expected}");
            }
            assert_eq!(score.p95_percent(), 90);
        }
    }
}

//! Nodes of a replay and their measured load.

use std::collections::VecDeque;

use jiff::Timestamp;
use placement::{Amounts, NodeHeat, NodeLoad, Usage};

/// Capacity and allocatable amounts of every node: 16 cores, 64 GiB.
pub(crate) const NODE: Amounts = Amounts {
    cpu_millicores: 16_000,
    memory_bytes: 64 << 30,
};
/// Slots of the load-watcher's longest window, 15 minutes, with slots of five minutes.
const WINDOW: usize = 3;
/// Measured time, for crane-scheduler: one day.
const DAY: usize = 288;
/// Slots between two updates of the maxima of an hour and of a day, and the slots of these. Source:
/// crane-scheduler's default policy, with 15 minutes and three hours.
const MAXIMA: [(usize, usize); 2] = [(3, 12), (36, DAY)];

/// A node and its load in percent: CPU, then memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) requests: Amounts,
    pub(super) pods: usize,
    pub(super) heat: NodeHeat,
    /// Load of the last slots.
    history: VecDeque<[f64; 2]>,
    /// Largest load of the last hour and day at their last updates.
    pub(super) maxima: [[f64; 2]; 2],
    /// Pods bound in this slot.
    pub(super) bindings: i64,
}

impl Node {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    pub(super) fn measure(&mut self, slot: usize, percent: [f64; 2]) {
        if self.history.len() == DAY {
            self.history.pop_front();
        }
        self.history.push_back(percent);
        for (held, (every, slots)) in self.maxima.iter_mut().zip(MAXIMA) {
            if (slot + 1).is_multiple_of(every) {
                let last = self.history.iter().rev().take(slots);
                *held = last.fold([0.0; 2], |largest, percent| {
                    [largest[0].max(percent[0]), largest[1].max(percent[1])]
                });
            }
        }
    }

    /// The load of the last slot in percent; `None` before the first.
    pub(super) fn last(&self) -> Option<[f64; 2]> {
        self.history.back().copied()
    }

    /// Average and standard deviation over the last 15 minutes; `None` before the first slot.
    pub(super) fn load(&self) -> Option<NodeLoad> {
        let count = self.history.len().min(WINDOW);
        if count == 0 {
            return None;
        }
        let of = |resource: usize| {
            let values = || {
                let last = self.history.iter().rev().take(WINDOW);
                last.map(move |percent| percent[resource])
            };
            let average_percent = values().sum::<f64>() / count as f64;
            let square = |value: f64| (value - average_percent) * (value - average_percent);
            let variance = values().map(square).sum::<f64>() / count as f64;
            Some(Usage {
                average_percent,
                deviation_percent: variance.sqrt(),
            })
        };
        Some(NodeLoad {
            cpu: of(0),
            memory: of(1),
            ..NodeLoad::default()
        })
    }

    /// Updates whether the node is hot, by the last slot.
    pub(super) fn observe_heat(&mut self, now: Timestamp, config: &placement::HotNodeConfig) {
        let percent = self.last().map(|[cpu, memory]| cpu.max(memory));
        self.heat = self.heat.observe(percent, now, config);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_of_15_minutes_and_maxima_are_updated_at_their_intervals() {
        let mut node = Node::default();
        assert_eq!(node.load(), None);
        for (slot, cpu, hour, day) in [
            (0, 90.0, 0, 0),
            (1, 10.0, 0, 0),
            (2, 20.0, 90, 0),
            (3, 60.0, 90, 0),
        ] {
            node.measure(slot, [cpu, 1.0]);
            let found = node.maxima.map(|largest| largest[0] as i64);
            assert_eq!(found, [hour, day], "{slot}");
        }
        let load = node.load().and_then(|load| load.cpu).expect("a load");
        let expected = (1400.0_f64 / 3.0).sqrt();
        assert!((load.average_percent - 30.0).abs() < 1e-9);
        assert!((load.deviation_percent - expected).abs() < 1e-9);
        for slot in 4..36 {
            node.measure(slot, [5.0, 1.0]);
        }
        let found = node.maxima.map(|largest| largest[0] as i64);
        assert_eq!(found, [5, 90]);
    }
}

//! Pods to move: from hot nodes, and from fragmented nodes that can be emptied.
//!
//! A pod moves only to a node that scores better by the policy, that can run it, that has room for
//! its requests, and that stays below the temperature at which a hot node cools. So no move makes a
//! node hot, and no pod of an emptied node returns: under constant load, plans come to an end.

mod state;

use jiff::{SignedDuration, Timestamp};

use crate::{Amounts, Commitment, Prioritizer};
use state::State;

#[derive(Clone, Copy, Debug)]
pub struct RebalancingConfig {
    /// Utilization that a node keeps below after a move, in percent; default 65.
    pub cool_percent: f64,
    /// Nodes below this utilization and requested share are fragmented, in percent; default 20.
    /// 0 empties no node.
    pub fragmented_percent: f64,
    /// Least gain in score; default 10.
    pub min_gain: i64,
    /// Least time between two moves of a pod; default one hour.
    pub cooldown: SignedDuration,
    /// Largest number of moves; default 20.
    pub max_moves: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RebalancingNode {
    pub name: String,
    pub is_hot: bool,
    /// Whether the node accepts pods: ready, not cordoned, with fresh metrics.
    pub is_schedulable: bool,
    pub capacity: Amounts,
    pub allocatable: Amounts,
    pub usage: Amounts,
    pub deviation: Deviation,
}

/// Standard deviation of the measured utilization of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Deviation {
    pub cpu_percent: f64,
    pub memory_percent: f64,
}

/// Permission to move a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mobility {
    Movable,
    /// May not be evicted now: no controller, no budget, or exempt.
    Pinned,
    /// One per node: `DaemonSet` and static pods. Does not keep a node from being empty.
    PerNode,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RebalancingPod {
    pub uid: String,
    pub node: usize,
    pub load: Amounts,
    pub commitment: Commitment,
    pub mobility: Mobility,
    pub moved_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveReason {
    HotNode,
    FragmentedNode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub pod: usize,
    /// Index of the node that the pod leaves.
    pub from: usize,
    /// Index of a better node.
    pub to: usize,
    /// Gain in score, 1 to 100.
    pub gain: i64,
    pub reason: MoveReason,
}

impl Default for RebalancingConfig {
    fn default() -> Self {
        Self {
            cool_percent: 65.0,
            fragmented_percent: 20.0,
            min_gain: 10,
            cooldown: SignedDuration::from_hours(1),
            max_moves: 20,
        }
    }
}

/// Moves that relieve hot nodes, else moves that empty fragmented nodes.
///
/// `can_run` says whether a pod may run on a node, by indices: node constraints and other filters.
/// A pod with a node index out of range is left out.
pub fn plan(
    nodes: &[RebalancingNode],
    pods: &[RebalancingPod],
    prioritizer: &Prioritizer,
    config: &RebalancingConfig,
    now: Timestamp,
    can_run: impl Fn(usize, usize) -> bool,
) -> Vec<Move> {
    let mut state = State::new(nodes, pods, prioritizer, config, now, &can_run);
    let hot = (0..nodes.len()).filter(|node| nodes[*node].is_hot);
    let mut hot: Vec<usize> = hot.collect();
    hot.sort_by(|one, other| state.percent(*other).total_cmp(&state.percent(*one)));
    for node in &hot {
        state.relieve(*node);
    }
    if hot.is_empty() {
        let fragmented = (0..nodes.len()).filter(|node| state.is_fragmented(*node));
        let mut fragmented: Vec<usize> = fragmented.collect();
        fragmented.sort_by(|one, other| state.percent(*one).total_cmp(&state.percent(*other)));
        for node in fragmented {
            state.empty(node);
        }
    }
    state.moves
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotNodeConfig {
    /// A node gets hot above this utilization, in percent; default 80.
    pub hot_percent: f64,
    /// A hot node stays hot down to this utilization, in percent; default 65.
    pub cool_percent: f64,
    /// Time above `hot_percent`; default five minutes.
    pub after: SignedDuration,
}

/// State of one node; the default for a new one.
/// A node is hot from some time above a threshold on, until it is below a lower one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeHeat {
    above_since: Option<Timestamp>,
    is_hot: bool,
}

impl Default for HotNodeConfig {
    fn default() -> Self {
        Self {
            hot_percent: 80.0,
            cool_percent: 65.0,
            after: SignedDuration::from_mins(5),
        }
    }
}

impl NodeHeat {
    /// The state after a measurement. Without one the node is not hot: no guesswork.
    #[must_use]
    pub fn observe(self, percent: Option<f64>, now: Timestamp, config: &HotNodeConfig) -> Self {
        let Some(percent) = percent.filter(|percent| percent.is_finite()) else {
            return Self::default();
        };
        let above_since =
            (percent > config.hot_percent).then(|| self.above_since.map_or(now, |at| at.min(now)));
        let is_due = above_since.is_some_and(|at| now.duration_since(at) >= config.after);
        let cool = config.cool_percent.min(config.hot_percent);
        Self {
            above_since,
            is_hot: is_due || (self.is_hot && percent >= cool),
        }
    }

    pub fn is_hot(self) -> bool {
        self.is_hot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_gets_hot_after_a_time_and_cools_below_the_lower_threshold() {
        let mut heat = NodeHeat::default();
        for (minute, percent, expected) in [
            (0, Some(85.0), false),
            (3, Some(81.0), false),
            (4, Some(80.0), false),
            (5, Some(85.0), false),
            (9, Some(85.0), false),
            (10, Some(85.0), true),
            (11, Some(70.0), true),
            (12, Some(65.0), true),
            (13, Some(64.9), false),
            (14, Some(79.0), false),
            (15, Some(90.0), false),
            (20, Some(90.0), true),
            (21, None, false),
            (22, Some(f64::NAN), false),
            (30, Some(90.0), false),
        ] {
            let now = Timestamp::from_second(minute * 60).expect("a time");
            heat = heat.observe(percent, now, &HotNodeConfig::default());
            assert_eq!(heat.is_hot(), expected, "minute {minute}");
        }
    }
}

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

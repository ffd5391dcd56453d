//! Usage, requests and pods of nodes while a plan grows.

use jiff::Timestamp;

use super::{Mobility, Move, MoveReason, RebalancingConfig, RebalancingNode, RebalancingPod};
use crate::{Amounts, Commitment, NodeLoad, NodeState, PodDemand, Prioritizer, Usage};

/// Most searches for a node per allowed move: bounds the time of a plan.
const SEARCHES_PER_MOVE: usize = 10;

pub(super) struct State<'a, F> {
    nodes: &'a [RebalancingNode],
    pods: &'a [RebalancingPod],
    prioritizer: &'a Prioritizer,
    config: &'a RebalancingConfig,
    now: Timestamp,
    can_run: &'a F,
    usage: Vec<Amounts>,
    commitment: Vec<Commitment>,
    on_node: Vec<Vec<usize>>,
    /// Nodes that received a pod or were emptied in this plan: neither is emptied again.
    is_settled: Vec<bool>,
    searches: usize,
    pub(super) moves: Vec<Move>,
}

/// Share of the capacity, in percent; the higher one of CPU and memory.
fn percent(amounts: Amounts, size: Amounts) -> f64 {
    let share = |part: i64, whole: i64| {
        if whole > 0 {
            100.0 * part as f64 / whole as f64
        } else if part > 0 {
            f64::INFINITY
        } else {
            0.0
        }
    };
    share(amounts.cpu_millicores, size.cpu_millicores)
        .max(share(amounts.memory_bytes, size.memory_bytes))
}

fn node_load(usage: Amounts, node: &RebalancingNode) -> NodeLoad {
    let of = |part: i64, whole: i64, deviation_percent: f64| {
        (whole > 0).then(|| Usage {
            average_percent: 100.0 * part as f64 / whole as f64,
            deviation_percent,
        })
    };
    let (size, deviation) = (node.capacity, node.deviation);
    NodeLoad {
        cpu: of(
            usage.cpu_millicores,
            size.cpu_millicores,
            deviation.cpu_percent,
        ),
        memory: of(
            usage.memory_bytes,
            size.memory_bytes,
            deviation.memory_percent,
        ),
        ..NodeLoad::default()
    }
}

fn minus(sum: Commitment, part: Commitment) -> Commitment {
    Commitment {
        requests: sum.requests.minus(part.requests),
        limits: sum.limits.minus(part.limits),
    }
}

impl<'a, F: Fn(usize, usize) -> bool> State<'a, F> {
    pub(super) fn new(
        nodes: &'a [RebalancingNode],
        pods: &'a [RebalancingPod],
        prioritizer: &'a Prioritizer,
        config: &'a RebalancingConfig,
        now: Timestamp,
        can_run: &'a F,
    ) -> Self {
        let mut commitment = vec![Commitment::default(); nodes.len()];
        let mut on_node = vec![Vec::new(); nodes.len()];
        for (index, pod) in pods.iter().enumerate() {
            if pod.node < nodes.len() {
                commitment[pod.node] = commitment[pod.node].plus(pod.commitment);
                on_node[pod.node].push(index);
            }
        }
        Self {
            nodes,
            pods,
            prioritizer,
            config,
            now,
            can_run,
            usage: nodes.iter().map(|node| node.usage).collect(),
            commitment,
            on_node,
            is_settled: vec![false; nodes.len()],
            searches: config.max_moves.saturating_mul(SEARCHES_PER_MOVE),
            moves: Vec::new(),
        }
    }

    pub(super) fn percent(&self, node: usize) -> f64 {
        percent(self.usage[node], self.nodes[node].capacity)
    }

    /// Whether a node is not hot, has pods, and little usage and requests.
    pub(super) fn is_fragmented(&self, node: usize) -> bool {
        let requested = self.commitment[node].requests;
        let threshold = self.config.fragmented_percent;
        !self.nodes[node].is_hot
            && self.has_pods(node)
            && self.percent(node) < threshold
            && percent(requested, self.nodes[node].allocatable) < threshold
    }

    fn has_pods(&self, node: usize) -> bool {
        let mut pods = self.on_node[node].iter();
        pods.any(|pod| self.pods[*pod].mobility != Mobility::PerNode)
    }

    fn may_move(&self, pod: usize) -> bool {
        let pod = &self.pods[pod];
        let has_rested = pod
            .moved_at
            .is_none_or(|at| self.now.duration_since(at) >= self.config.cooldown);
        pod.mobility == Mobility::Movable && has_rested
    }

    /// Moves the largest pods away until the node is cool.
    pub(super) fn relieve(&mut self, node: usize) {
        let mut candidates: Vec<usize> = self.on_node[node].clone();
        candidates.retain(|pod| self.may_move(*pod));
        let size = self.nodes[node].capacity;
        let share = |pod: &usize| percent(self.pods[*pod].load, size);
        candidates.sort_by(|one, other| share(other).total_cmp(&share(one)));
        for pod in candidates {
            if self.percent(node) < self.config.cool_percent || self.is_full() {
                return;
            }
            if let Some((to, gain)) = self.better_node(pod, node, MoveReason::HotNode) {
                self.apply(pod, node, to);
                self.record(pod, node, to, gain, MoveReason::HotNode);
            }
        }
    }

    /// Moves all pods away, if each has a better node and none must stay.
    pub(super) fn empty(&mut self, node: usize) {
        let pods: Vec<usize> = self.on_node[node]
            .iter()
            .copied()
            .filter(|pod| self.pods[*pod].mobility != Mobility::PerNode)
            .collect();
        let room = self.config.max_moves - self.moves.len();
        let may_all_move = pods.iter().all(|pod| self.may_move(*pod));
        if self.is_settled[node] || pods.len() > room || !may_all_move {
            return;
        }
        let mut moved = Vec::new();
        for pod in pods {
            let Some((to, gain)) = self.better_node(pod, node, MoveReason::FragmentedNode) else {
                for (pod, to, _) in moved {
                    self.apply(pod, to, node);
                }
                return;
            };
            self.apply(pod, node, to);
            moved.push((pod, to, gain));
        }
        for (pod, to, gain) in moved {
            self.record(pod, node, to, gain, MoveReason::FragmentedNode);
        }
        self.is_settled[node] = true;
    }

    fn is_full(&self) -> bool {
        self.moves.len() >= self.config.max_moves
    }

    /// The node with the best score for a pod, with the gain.
    fn better_node(&mut self, pod: usize, from: usize, reason: MoveReason) -> Option<(usize, i64)> {
        self.searches = self.searches.checked_sub(1)?;
        let moved = &self.pods[pod];
        let candidates: Vec<usize> = (0..self.nodes.len())
            .filter(|node| *node == from || self.accepts(pod, *node, from, reason))
            .collect();
        // The node that the pod is on is scored without the pod, like the others.
        let without = |node: usize| {
            if node == from {
                let usage = self.usage[node].minus(moved.load);
                (usage, minus(self.commitment[node], moved.commitment))
            } else {
                (self.usage[node], self.commitment[node])
            }
        };
        let loads: Vec<NodeLoad> = candidates
            .iter()
            .map(|node| node_load(without(*node).0, &self.nodes[*node]))
            .collect();
        let states: Vec<NodeState> = candidates
            .iter()
            .zip(&loads)
            .map(|(node, load)| NodeState {
                capacity: self.nodes[*node].capacity,
                allocatable: self.nodes[*node].allocatable,
                commitment: without(*node).1,
                pods: self.on_node[*node].len(),
                load: Some(load),
                ..NodeState::default()
            })
            .collect();
        let demand = PodDemand {
            load: moved.load,
            commitment: moved.commitment,
        };
        let scores = self.prioritizer.scores(&demand, &states, None);
        let ranked = || candidates.iter().copied().zip(scores.iter().copied());
        let (_, current) = ranked().find(|(node, _)| *node == from)?;
        let (to, score) = ranked()
            .filter(|(node, _)| *node != from)
            .max_by_key(|(node, score)| (*score, std::cmp::Reverse(*node)))?;
        let gain = score - current;
        (gain >= self.config.min_gain.max(1)).then_some((to, gain))
    }

    fn accepts(&self, pod: usize, node: usize, from: usize, reason: MoveReason) -> bool {
        let target = &self.nodes[node];
        let moved = &self.pods[pod];
        let usage = self.usage[node].plus(moved.load);
        let requests = self.commitment[node]
            .requests
            .plus(moved.commitment.requests);
        let is_empty = reason == MoveReason::FragmentedNode && !self.has_pods(node);
        node != from
            && target.is_schedulable
            && !target.is_hot
            && !is_empty
            && percent(usage, target.capacity) < self.config.cool_percent
            && requests.fits(target.allocatable)
            && (self.can_run)(pod, node)
    }

    fn apply(&mut self, pod: usize, from: usize, to: usize) {
        let moved = &self.pods[pod];
        self.usage[from] = self.usage[from].minus(moved.load);
        self.usage[to] = self.usage[to].plus(moved.load);
        self.commitment[from] = minus(self.commitment[from], moved.commitment);
        self.commitment[to] = self.commitment[to].plus(moved.commitment);
        self.on_node[from].retain(|listed| *listed != pod);
        self.on_node[to].push(pod);
    }

    fn record(&mut self, pod: usize, from: usize, to: usize, gain: i64, reason: MoveReason) {
        self.is_settled[to] = true;
        self.moves.push(Move {
            pod,
            from,
            to,
            gain,
            reason,
        });
    }
}

//! Choice of a node for a pod.

use jiff::Timestamp;
use placement::{
    Allocation, Amounts, Commitment, NodeLoad, NodeState, PodDemand, PodKey, Policy,
    PressureTargets, Prioritizer, Reservations,
};

use super::node::{NODE, Node};
use crate::bootstrap::split_mix;

/// Scheduler that scores the nodes with room for the requests of a pod. Equal scores are decided by
/// a seeded hash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scheduler {
    pub(crate) scoring: Scoring,
    /// Factor between the request of a pod and its expected CPU load.
    pub(crate) multiplier: f64,
    /// Whether pods that the metrics do not include yet count.
    pub(crate) reserves: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scoring {
    /// kube-scheduler's `LeastAllocated` or `MostAllocated`.
    Allocated(Allocation),
    /// crane-scheduler's plugin `Dynamic` with its default policy.
    Crane,
    Load(Prioritizer),
}

/// Pod that waits for a node.
pub(super) struct Candidate<'a> {
    pub(super) request: Amounts,
    pub(super) key: PodKey<'a>,
    /// Seed for equal scores.
    pub(super) seed: u64,
}

/// crane-scheduler's thresholds and weights of the load of five minutes and of the maxima of an hour
/// and of a day.
const CRANE_FILTER: [Option<f64>; 3] = [Some(65.0), Some(75.0), None];
const CRANE_WEIGHTS: [f64; 3] = [0.2, 0.3, 0.5];
/// Bindings per unit of the hot value, in five minutes and in one.
const CRANE_BINDINGS: [i64; 2] = [5, 2];

impl Scheduler {
    /// The node for a pod; `None` if the pod fits nowhere.
    pub(super) fn choose(
        &self,
        pod: &Candidate<'_>,
        nodes: &[Node],
        reservations: &Reservations,
        now: Timestamp,
    ) -> Option<usize> {
        let has_room = |node: &usize| nodes[*node].requests.plus(pod.request).fits(NODE);
        let mut offered: Vec<usize> = (0..nodes.len()).filter(has_room).collect();
        let scores = match self.scoring {
            Scoring::Crane => {
                offered.retain(|node| !crane_rejects(&nodes[*node]));
                let score = |node: &usize| crane_score(&nodes[*node]);
                offered.iter().map(score).collect()
            }
            Scoring::Allocated(by) => {
                let score = |node: &usize| by.score(nodes[*node].requests.plus(pod.request), NODE);
                offered.iter().map(score).collect()
            }
            Scoring::Load(prioritizer) => {
                let demand = PodDemand {
                    load: self.expected_load(pod.request),
                    commitment: commitment(pod.request),
                };
                let load = |node: &usize| nodes[*node].load();
                let loads: Vec<Option<NodeLoad>> = offered.iter().map(load).collect();
                let states = offered.iter().zip(&loads).map(|(node, load)| {
                    let node = &nodes[*node];
                    let reserved =
                        || reservations.reserved_for(pod.key, &node.name, Some(now), now);
                    NodeState {
                        capacity: NODE,
                        allocatable: NODE,
                        commitment: commitment(node.requests),
                        pods: node.pods,
                        load: load.as_ref(),
                        reserved: self.reserves.then(reserved).unwrap_or_default(),
                        ..NodeState::default()
                    }
                });
                prioritizer.scores(&demand, &states.collect::<Vec<_>>(), None)
            }
        };
        let hash = |node: usize| {
            let mut state = pod.seed ^ (node as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            split_mix(&mut state)
        };
        let ranked = offered.into_iter().zip(scores);
        let best = ranked.max_by_key(|(node, score)| (*score, hash(*node)));
        best.map(|(node, _)| node)
    }

    /// The load of a pod before the metrics include it.
    pub(super) fn expected_load(&self, request: Amounts) -> Amounts {
        let millicores = request.cpu_millicores as f64 * self.multiplier;
        Amounts {
            cpu_millicores: millicores.round() as i64,
            ..request
        }
    }

    /// Upstream's plugin of Trimaran with its defaults.
    pub(crate) fn trimaran(policy: Policy) -> Self {
        // Only target load packing multiplies requests and counts pods without metrics.
        let (multiplier, reserves) = match policy {
            Policy::TargetLoadPacking(plugin) => (plugin.requests_multiplier, true),
            _ => (1.0, false),
        };
        let targets = PressureTargets::default();
        Self {
            scoring: Scoring::Load(Prioritizer { policy, targets }),
            multiplier,
            reserves,
        }
    }

    /// Scores that need no expected load.
    pub(crate) const fn plain(scoring: Scoring) -> Self {
        Self {
            scoring,
            multiplier: 1.0,
            reserves: false,
        }
    }
}

pub(super) fn commitment(requests: Amounts) -> Commitment {
    Commitment {
        requests,
        limits: requests,
    }
}

/// Load of five minutes, maxima of an hour and of a day; each CPU and memory, in percent.
fn crane_loads(node: &Node) -> [[f64; 2]; 3] {
    let [hour, day] = node.maxima;
    [node.last().unwrap_or_default(), hour, day]
}

fn crane_rejects(node: &Node) -> bool {
    let loads = crane_loads(node).into_iter().zip(CRANE_FILTER);
    loads.into_iter().any(|(load, threshold)| {
        threshold.is_some_and(|threshold| load.iter().any(|percent| *percent > threshold))
    })
}

fn crane_score(node: &Node) -> i64 {
    let loads = crane_loads(node).into_iter().zip(CRANE_WEIGHTS);
    let (mut sum, mut weights) = (0.0, 0.0);
    for (load, weight) in loads {
        for percent in load {
            sum += weight * (100.0 - percent).clamp(0.0, 100.0);
            weights += weight;
        }
    }
    let hot_value: i64 = CRANE_BINDINGS.map(|per| node.bindings / per).iter().sum();
    ((sum / weights) as i64 - 10 * hot_value).clamp(0, 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Score of crane-scheduler, or `None` for a rejected node, by load in every slot of a day, then
    /// in the last slots, and bindings.
    fn check(steady: [f64; 2], last: &[[f64; 2]], bindings: i64, expected: Option<i64>) {
        let mut node = Node::default();
        for slot in 0..288 {
            node.measure(slot, steady);
        }
        for (slot, load) in (288..).zip(last) {
            node.measure(slot, *load);
        }
        node.bindings = bindings;
        let found = (!crane_rejects(&node)).then(|| crane_score(&node));
        assert_eq!(found, expected, "{steady:?} {last:?} {bindings}");
    }

    #[test]
    fn crane_scores_by_load_maxima_and_bindings() {
        check([0.0, 0.0], &[], 0, Some(100));
        check([50.0, 30.0], &[], 0, Some(60));
        check([50.0, 30.0], &[], 1, Some(60));
        check([50.0, 30.0], &[], 2, Some(50));
        // Bindings in five minutes: one for five; in one minute: two for four.
        check([50.0, 30.0], &[], 5, Some(30));
        check([50.0, 30.0], &[], 20, Some(0));
        check([66.0, 0.0], &[], 0, None);
        check([0.0, 66.0], &[], 0, None);
        check([64.0, 0.0], &[], 0, Some(68));
        // 76 % in the last hour rejects; the maximum of the hour is updated every 15 minutes.
        check([0.0; 2], &[[60.0, 0.0]], 0, Some(94));
        check([0.0; 2], &[[76.0, 0.0], [0.0; 2]], 0, Some(100));
        check([0.0; 2], &[[76.0, 0.0], [0.0; 2], [0.0; 2]], 0, None);
    }
}

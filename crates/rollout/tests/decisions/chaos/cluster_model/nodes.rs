//! Nodes: their size and load, the scheduler, and the kubelet, which has no room for some resizes.

use jiff::SignedDuration;
use placement::{MeasuredLoad, NodeLoad, Usage, WindowLoad};
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;

use super::{ClusterModel, NODES};

/// CPU of a node that has room for everything, in millicores.
const LARGE: i64 = 64_000;

/// Nodes that are all large, or of which some are full after a few pods and one is too small for
/// the largest pods.
pub(super) fn sizes(rng: &mut StdRng) -> [i64; NODES] {
    if rng.random_bool(0.5) {
        return [LARGE; NODES];
    }
    let mut sizes = [(); NODES].map(|()| rng.random_range(3..=10) * 1000);
    sizes[rng.random_range(0..NODES)] = 900;
    sizes
}

/// Whether nodes can be full.
pub(super) fn has_small(sizes: &[i64]) -> bool {
    sizes.iter().any(|size| *size < LARGE)
}

impl ClusterModel {
    /// Whether nodes can be full.
    pub(in crate::chaos) fn has_small_nodes(&self) -> bool {
        has_small(&self.sizes)
    }

    /// CPU that the pods of a node have, without one of them.
    fn allocated(&self, node: usize, without: &str) -> i64 {
        let here = self.pods.iter().filter(|(_, pod)| pod.node == node);
        let others = here.filter(|(name, _)| *name != without);
        others.map(|(_, pod)| pod.reported).sum()
    }

    /// A node with room for a pod, or else any: nodes are added in other ways.
    pub(super) fn schedule(&self, cpu: i64, rng: &mut StdRng) -> usize {
        let has_room = |node: &usize| self.allocated(*node, "") + cpu <= self.sizes[*node];
        let nodes: Vec<usize> = (0..NODES).filter(has_room).collect();
        let any = rng.random_range(0..NODES);
        nodes.choose(rng).copied().unwrap_or(any)
    }

    /// The kubelet's reason for not carrying out a resize, if it does not.
    fn refusal(&self, name: &str) -> Option<&'static str> {
        let pod = &self.pods[name];
        let size = self.sizes[pod.node];
        if pod.cpu <= pod.reported {
            None
        } else if pod.cpu > size {
            Some("Infeasible")
        } else if self.allocated(pod.node, name) + pod.cpu > size {
            Some("Deferred")
        } else {
            None
        }
    }

    /// The kubelet takes the next step of a pod.
    pub(super) fn kubelet(&mut self, name: &str, rng: &mut StdRng) {
        let refusal = self.refusal(name);
        let pod = self.pods.get_mut(name).expect("it is there");
        if pod.is_terminating {
            if rng.random_bool(0.5) {
                self.remove(name);
            }
            return;
        }
        if !pod.is_running {
            pod.is_running = true;
            pod.memory.run_began = Some(self.now.wall);
            return self.publish_pod(name);
        }
        if self.oom_kill(name, refusal.is_none(), rng) {
            return self.publish_pod(name);
        }
        let pod = self.pods.get_mut(name).expect("it is there");
        if pod.memory.run_began.is_none() {
            return;
        }
        let is_resized = pod.cpu != pod.reported || pod.memory.is_resized();
        if pod.cpu != pod.reported && refusal.is_some() {
            if pod.observed != pod.generation {
                let count = &mut self.count;
                count.deferred += u64::from(refusal == Some("Deferred"));
                count.infeasible += u64::from(refusal == Some("Infeasible"));
            }
            (pod.refusal, pod.observed) = (refusal, pod.generation);
        } else if pod.cpu != pod.reported && pod.restarts && pod.is_ready {
            pod.is_ready = false;
        } else if is_resized {
            (pod.reported, pod.observed) = (pod.cpu, pod.generation);
            pod.memory.carry_out();
            pod.refusal = None;
        } else if !pod.is_ready {
            (pod.is_ready, pod.restarts) = (true, false);
        } else {
            return;
        }
        self.publish_pod(name);
    }

    /// A measured load of the nodes; some are hot, and some have little load.
    pub(in crate::chaos) fn node_load(&mut self, rng: &mut StdRng) -> MeasuredLoad {
        let mut nodes = std::collections::HashMap::new();
        for node in 0..NODES {
            if rng.random_bool(0.1) {
                self.percents[node] = [2.0, 5.0, 20.0, 95.0][rng.random_range(0..4)];
            }
            let average_percent = self.percents[node];
            let cpu = Some(Usage {
                average_percent,
                deviation_percent: 0.0,
            });
            let load = NodeLoad {
                cpu,
                ..NodeLoad::default()
            };
            nodes.insert(format!("n{node}"), load);
        }
        let end = self.now.wall;
        MeasuredLoad {
            load: WindowLoad { end, nodes },
            length: SignedDuration::from_mins([0, 5, 15][rng.random_range(0..3)]),
        }
    }
}

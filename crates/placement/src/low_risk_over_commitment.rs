//! `LowRiskOverCommitment`: little risk from limits above the capacity and from measured load.

use std::sync::{Mutex, PoisonError};

use crate::beta::probability;
use crate::load_variation_risk_balancing::mean_and_deviation;
use crate::{Amounts, Usage, rounded};

/// Arguments of the plugin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LowRiskOverCommitment {
    /// Number of samples that the metrics are smoothed over.
    pub smoothing_window_size: i64,
    pub cpu_limit_weight: f64,
    pub memory_limit_weight: f64,
}

/// Requests and limits of pods: of those on a node, and of the pod to place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commitment {
    pub requests: Amounts,
    /// Sum of limits, each at least the request of its pod.
    pub limits: Amounts,
}

impl Default for LowRiskOverCommitment {
    fn default() -> Self {
        Self {
            smoothing_window_size: 5,
            cpu_limit_weight: 0.5,
            memory_limit_weight: 0.5,
        }
    }
}

impl Commitment {
    /// The saturated sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.plus(other.requests),
            limits: self.limits.plus(other.limits),
        }
    }
}

/// Part of a node's score that does not depend on the pod to place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeCommitment {
    pub cpu: Option<Usage>,
    pub memory: Option<Usage>,
    pub allocatable: Amounts,
    pub pods: Commitment,
    /// Load of pods that the metrics do not include yet.
    pub reserved: Amounts,
}

/// Risk from the load of a node by resource, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadRisk {
    /// Probability that the CPU load exceeds the requests of the pods on the node.
    pub cpu: f64,
    pub memory: f64,
}

/// The last load risk of a node. It is computed again when the node or the window changes, which
/// is less often than a pod is placed and takes most of the time of a score.
#[derive(Debug, Default)]
pub struct LoadRiskCache(Mutex<Option<CachedRisk>>);

#[derive(Clone, Copy, Debug)]
struct CachedRisk {
    node: NodeCommitment,
    smoothing_window_size: i64,
    risk: LoadRisk,
}

impl LoadRiskCache {
    /// The last load risk; `None` before the first.
    pub fn last(&self) -> Option<LoadRisk> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.map(|cached| cached.risk)
    }

    pub fn get(&self, plugin: &LowRiskOverCommitment, node: &NodeCommitment) -> LoadRisk {
        let smoothing_window_size = plugin.smoothing_window_size;
        // A panic cannot leave the value half written.
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = *cached
            && cached.smoothing_window_size == smoothing_window_size
            && cached.node == *node
        {
            return cached.risk;
        }
        let risk = plugin.load_risk(node);
        *cached = Some(CachedRisk {
            node: *node,
            smoothing_window_size,
            risk,
        });
        risk
    }
}

/// One resource of a node, in one unit.
#[derive(Clone, Copy, Debug)]
struct Resource {
    capacity: f64,
    /// Without the pod to place.
    requests: f64,
    /// Without the pod to place.
    limits: f64,
    pod_requests: f64,
    pod_limits: f64,
}

impl LowRiskOverCommitment {
    /// Score of a node with this load risk. A pod without requests and limits has the score 0.
    pub fn score(&self, load: LoadRisk, node: &NodeCommitment, pod: Commitment) -> i64 {
        if pod == Commitment::default() {
            return 0;
        }
        let [cpu, memory] = resources(node, pod);
        let cpu = risk(cpu, load.cpu, self.cpu_limit_weight);
        let memory = risk(memory, load.memory, self.memory_limit_weight);
        rounded(100.0 * (1.0 - cpu.max(memory)))
    }

    /// Risk from the load of a node; 0 for a resource without metrics.
    pub fn load_risk(&self, node: &NodeCommitment) -> LoadRisk {
        let [cpu, memory] = resources(node, Commitment::default());
        let of = |resource, usage: Option<Usage>, reserved: i64| {
            usage.map_or(0.0, |usage| self.excess(resource, usage, reserved as f64))
        };
        LoadRisk {
            cpu: of(cpu, node.cpu, node.reserved.cpu_millicores),
            memory: of(memory, node.memory, node.reserved.memory_bytes),
        }
    }

    /// Probability that the load exceeds the requests of the pods on the node.
    fn excess(&self, resource: Resource, usage: Usage, reserved: f64) -> f64 {
        let Resource {
            capacity, limits, ..
        } = resource;
        let requests = resource.requests.min(capacity);
        let (mean, deviation) = mean_and_deviation(usage, capacity, reserved).unwrap_or((0.0, 0.0));
        let deviation = deviation * (self.smoothing_window_size.max(0) as f64).sqrt();
        let deviation = deviation.min((0.99 * mean * (1.0 - mean)).max(0.0).sqrt());
        let threshold = if capacity > 0.0 {
            (requests / capacity).clamp(0.0, 1.0)
        } else {
            0.0
        };
        let (mut probability, fit) = probability(mean, deviation, threshold);
        if limits < capacity && requests <= limits {
            let most = limits / capacity;
            let below_limits = fit.map_or(0.0, |fit| fit.distribution(most));
            if most <= 0.0 {
                probability = 1.0;
            } else if below_limits > 0.0 {
                probability = (probability / below_limits).clamp(0.0, 1.0);
            }
        }
        1.0 - probability
    }
}

fn resources(node: &NodeCommitment, pod: Commitment) -> [Resource; 2] {
    let amounts: [fn(Amounts) -> i64; 2] = [
        |amounts| amounts.cpu_millicores,
        |amounts| amounts.memory_bytes,
    ];
    amounts.map(|amount| Resource {
        capacity: amount(node.allocatable) as f64,
        requests: amount(node.pods.requests) as f64,
        limits: amount(node.pods.limits) as f64,
        pod_requests: amount(pod.requests) as f64,
        pod_limits: amount(pod.limits) as f64,
    })
}

fn risk(resource: Resource, load_risk: f64, limit_weight: f64) -> f64 {
    (limit_weight * limit_risk(resource) + (1.0 - limit_weight) * load_risk).clamp(0.0, 1.0)
}

/// Share of the limits above requests that exceeds the capacity.
fn limit_risk(resource: Resource) -> f64 {
    let limits = resource.limits + resource.pod_limits;
    let requests = (resource.requests + resource.pod_requests).min(resource.capacity);
    if limits > resource.capacity {
        (limits - resource.capacity) / (limits - requests)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn usage(average_percent: f64, deviation_percent: f64) -> Usage {
        Usage {
            average_percent,
            deviation_percent,
        }
    }

    /// Requests and limits with the pod; then those without.
    fn check(capacity: f64, with: (f64, f64), without: (f64, f64), usage: Usage, expected: f64) {
        let resource = Resource {
            capacity,
            requests: without.0,
            limits: without.1,
            pod_requests: with.0 - without.0,
            pod_limits: with.1 - without.1,
        };
        let plugin = LowRiskOverCommitment::default();
        let found = risk(resource, plugin.excess(resource, usage, 0.0), 0.5);
        assert!((found - expected).abs() < 1e-3, "{resource:?}: {found}");
    }

    #[test]
    fn upstreams_examples_have_their_risks() {
        let cpu = usage(80.0, 0.0);
        let memory = usage(25.0, 0.0);
        check(4000.0, (2000.0, 3000.0), (1000.0, 2000.0), cpu, 0.5);
        check(4096.0, (2048.0, 6144.0), (0.0, 0.0), memory, 0.25);
        check(4000.0, (4000.0, 5000.0), (3000.0, 4000.0), cpu, 1.0);
        check(4096.0, (1024.0, 7168.0), (512.0, 6144.0), memory, 0.75);
        let half = usage(50.0, 10.0);
        check(4000.0, (2000.0, 6000.0), (1000.0, 3000.0), half, 0.657_407);
        check(4000.0, (2000.0, 6000.0), (1000.0, 5000.0), half, 0.671_875);
        let low = usage(20.0, 5.0);
        check(4000.0, (2000.0, 3000.0), (1500.0, 2000.0), low, 0.033_184);
        let idle = usage(0.0, 0.0);
        check(4000.0, (1000.0, 8000.0), (0.0, 4000.0), idle, 0.285_714);
        let full = usage(100.0, 0.0);
        check(4000.0, (3000.0, 5000.0), (2000.0, 4000.0), full, 0.75);
    }

    /// The measured cluster of the proposal: three nodes of 3,910 millicores.
    #[test]
    fn the_measured_cluster_of_the_proposal_has_its_risks() {
        for (requests, limits, used, deviation, expected) in [
            (2617.0, 5816.0, 2452.89, 467.45, 0.563),
            (2544.0, 4620.0, 1901.78, 606.49, 0.371),
            (3568.0, 4380.0, 1326.75, 421.59, 0.297),
        ] {
            let percent = |amount: f64| amount / 3910.0 * 100.0;
            let usage = usage(percent(used), percent(deviation));
            let without = (requests - 100.0, limits);
            check(3910.0, (requests, limits), without, usage, expected);
        }
    }

    /// KEP-357's first example: 4 CPUs, a load of 3.6 with a deviation of 1.2, a pod with a request
    /// of 1 and a limit of 3. The document's second node has a lower limit than request for a pod,
    /// which the running code raises to the request.
    #[test]
    fn the_first_example_of_the_proposal_has_the_scores_of_the_running_code() {
        let usage = usage(90.0, 30.0);
        for (limits, expected) in [(6.0, 0.867), (4.0, 0.825)] {
            check(4.0, (3.0, limits + 3.0), (2.0, limits), usage, expected);
        }
    }

    fn amounts(cpu_millicores: i64, memory_bytes: i64) -> Amounts {
        Amounts {
            cpu_millicores,
            memory_bytes,
        }
    }

    /// Upstream's integration test, with weights of 1.
    #[test]
    fn the_node_without_commitment_above_its_size_wins() {
        let plugin = LowRiskOverCommitment {
            cpu_limit_weight: 1.0,
            memory_limit_weight: 1.0,
            ..LowRiskOverCommitment::default()
        };
        let commitment = |requests, limits| Commitment {
            requests: amounts(requests, 64),
            limits: amounts(limits, 64),
        };
        for (pods, cpu, expected) in [
            (commitment(500, 500), usage(60.0, 30.0), 100),
            (commitment(100, 1200), usage(30.0, 20.0), 88),
        ] {
            let node = NodeCommitment {
                cpu: Some(cpu),
                memory: None,
                allocatable: amounts(2000, 256),
                pods,
                reserved: Amounts::default(),
            };
            assert_eq!(
                plugin.score(plugin.load_risk(&node), &node, commitment(500, 1000)),
                expected
            );
            assert_eq!(
                plugin.score(plugin.load_risk(&node), &node, Commitment::default()),
                0
            );
        }
    }

    /// Upstream's sums over a node: requests and limits of the pods, each limit at least its request.
    #[test]
    fn commitments_of_pods_are_added() {
        let pod = |requests: (i64, i64), limits: (i64, i64)| {
            let (requests, limits) = (amounts(requests.0, requests.1), amounts(limits.0, limits.1));
            let list = |of: Amounts| {
                let cpu = model::Cpu::from_millicores(of.cpu_millicores);
                model::ResourceList::of(cpu, model::Memory::from_bytes(of.memory_bytes))
            };
            let container = crate::Container {
                requests: list(requests),
                limits: list(limits),
                ..crate::Container::default()
            };
            let spec = crate::PodSpec {
                containers: vec![container],
                ..crate::PodSpec::default()
            };
            Commitment {
                requests: spec.requests(),
                limits: spec.limits(),
            }
        };
        let usual = pod((1500, 2048), (2000, 2048));
        let lower_limit = pod((1500, 2048), (1400, 3072));
        for (pods, requests, limits) in [
            (vec![usual; 3], (4500, 6144), (6000, 6144)),
            (
                vec![pod((1500, 2048), (2000, 3072)), usual],
                (3000, 4096),
                (4000, 5120),
            ),
            (vec![usual], (1500, 2048), (2000, 2048)),
            (vec![lower_limit], (1500, 2048), (1500, 3072)),
            (vec![], (0, 0), (0, 0)),
        ] {
            let sum = pods
                .into_iter()
                .fold(Commitment::default(), Commitment::plus);
            let expected = Commitment {
                requests: amounts(requests.0, requests.1),
                limits: amounts(limits.0, limits.1),
            };
            assert_eq!(sum, expected);
        }
    }

    proptest! {
        #[test]
        fn a_cached_score_is_the_computed_one(
            nodes in prop::collection::vec(
                (0.0..110.0_f64, 0.0..60.0_f64, prop::array::uniform6(0..5_000_i64), 1..8_i64),
                1..12,
            ),
        ) {
            let cache = LoadRiskCache::default();
            for (average, deviation, part, window) in nodes {
                let plugin = LowRiskOverCommitment {
                    smoothing_window_size: window,
                    ..LowRiskOverCommitment::default()
                };
                let pods = Commitment {
                    requests: amounts(part[0], part[1]),
                    limits: amounts(part[2], part[3]),
                };
                let node = NodeCommitment {
                    cpu: Some(usage(average, deviation)),
                    memory: (part[0] % 2 == 0).then(|| usage(deviation, average)),
                    allocatable: amounts(part[4], part[5]),
                    pods,
                    reserved: amounts(part[5] / 9, part[4] / 9),
                };
                for pod in [pods, Commitment::default()] {
                    // The second time from the cache.
                    for _ in 0..2 {
                        let found = plugin.score(cache.get(&plugin, &node), &node, pod);
                        prop_assert_eq!(found, plugin.score(plugin.load_risk(&node), &node, pod));
                    }
                }
            }
        }
    }
}

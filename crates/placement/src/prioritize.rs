//! Scores of nodes for one pod: a policy, with caps for resources that the policy leaves out.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::peaks::{PowerModel, normalize};
use crate::{
    Allocation, Amounts, Commitment, FallbackReason, LoadRiskCache, LoadVariationRiskBalancing,
    LowRiskOverCommitment, NodeCommitment, NodeLoad, NodeResource, TargetLoadPacking, Usage,
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// By CPU.
    TargetLoadPacking(TargetLoadPacking),
    /// By CPU and memory.
    LoadVariationRiskBalancing(LoadVariationRiskBalancing),
    /// By CPU and memory.
    LowRiskOverCommitment(LowRiskOverCommitment),
    /// By the power models of the nodes and CPU.
    Peaks,
}

/// Targets for resources in addition to the policy, 1 to 100 percent; `None` ignores a resource, as
/// upstream does.
///
/// Below its target, a resource leaves the score of the policy unchanged. Above it, the score is at
/// most that of [`TargetLoadPacking`] for the utilization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PressureTargets {
    #[serde(deserialize_with = "percent")]
    pub memory_percent: Option<i64>,
    #[serde(deserialize_with = "percent")]
    pub network_percent: Option<i64>,
    #[serde(deserialize_with = "percent")]
    pub disk_percent: Option<i64>,
}

/// Reads 0 to 100 percent. 0 is `None`.
pub(crate) fn percent<'de, D, T>(number: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: From<u8>,
{
    match u8::deserialize(number)? {
        0 => Ok(None),
        percent @ 1..=100 => Ok(Some(percent.into())),
        _ => Err(D::Error::custom("must be 0 to 100")),
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prioritizer {
    pub policy: Policy,
    /// Targets for other resources.
    pub targets: PressureTargets,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodDemand {
    /// Predicted load. Upstream's scores have the requests here, and for target load packing the
    /// prediction from limits and requests.
    pub load: Amounts,
    /// Requests and limits.
    pub commitment: Commitment,
}

/// Node that can run the pod.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeState<'a> {
    pub capacity: Amounts,
    pub allocatable: Amounts,
    /// Sum over the pods on the node.
    pub commitment: Commitment,
    pub pods: usize,
    /// Measured load; `None` without metrics.
    pub load: Option<&'a NodeLoad>,
    pub reserved: Amounts,
    /// Power model, for [`Policy::Peaks`].
    pub power: Option<PowerModel>,
    /// Cache of the node for [`Policy::LowRiskOverCommitment`]; `None` computes each time.
    pub load_risk: Option<&'a LoadRiskCache>,
}

/// Load of a node without pods and without metrics.
const IDLE: NodeLoad = NodeLoad {
    cpu: Some(ZERO),
    memory: Some(ZERO),
    network: None,
    disk: None,
};
const ZERO: Usage = Usage {
    average_percent: 0.0,
    deviation_percent: 0.0,
};

impl Prioritizer {
    /// Scores of the nodes, in their order. With a reason for the fallback, by requests.
    pub fn scores(
        &self,
        pod: &PodDemand,
        nodes: &[NodeState],
        fallback: Option<FallbackReason>,
    ) -> Vec<i64> {
        if fallback.is_some() {
            return self.allocation_scores(pod, nodes);
        }
        let mut scores: Vec<i64> = if self.policy == Policy::Peaks {
            let rises: Vec<_> = nodes.iter().map(|node| rise(pod, node)).collect();
            normalize(&rises)
        } else {
            let nodes = nodes.iter();
            nodes.map(|node| self.policy_score(pod, node)).collect()
        };
        for (score, node) in scores.iter_mut().zip(nodes) {
            *score = self.cap(pod, node).min(*score);
        }
        scores
    }

    /// Scores by requests: best fit for policies that pack, else the least allocated node.
    fn allocation_scores(&self, pod: &PodDemand, nodes: &[NodeState]) -> Vec<i64> {
        let by = match self.policy {
            Policy::TargetLoadPacking(_) | Policy::Peaks => Allocation::Most,
            Policy::LoadVariationRiskBalancing(_) | Policy::LowRiskOverCommitment(_) => {
                Allocation::Least
            }
        };
        let score = |node: &NodeState| {
            let requested = node.commitment.requests.plus(pod.commitment.requests);
            by.score(requested, node.allocatable)
        };
        nodes.iter().map(score).collect()
    }

    fn policy_score(&self, pod: &PodDemand, node: &NodeState) -> i64 {
        let Some(load) = known_load(node) else {
            return 0;
        };
        match &self.policy {
            Policy::TargetLoadPacking(plugin) => plugin.score(
                load.cpu.map(|usage| usage.average_percent),
                node.capacity.cpu_millicores,
                pod.load.cpu_millicores,
                node.reserved.cpu_millicores,
            ),
            Policy::LoadVariationRiskBalancing(plugin) => plugin.score(
                load.cpu,
                load.memory,
                node.allocatable,
                pod.load.plus(node.reserved),
            ),
            Policy::LowRiskOverCommitment(plugin) => {
                let committed = committed(node, load);
                let risk = match node.load_risk {
                    Some(cache) => cache.get(plugin, &committed),
                    None => plugin.load_risk(&committed),
                };
                plugin.score(risk, &committed, pod.commitment)
            }
            Policy::Peaks => 0,
        }
    }

    /// The highest score that the resources with a target allow.
    fn cap(&self, pod: &PodDemand, node: &NodeState) -> i64 {
        let Some(load) = known_load(node) else {
            return 100;
        };
        let added = pod.load.plus(node.reserved).memory_bytes.max(0) as f64;
        let size = node.capacity.memory_bytes;
        let memory = if size > 0 {
            100.0 * added / size as f64
        } else {
            0.0
        };
        let PressureTargets {
            memory_percent,
            network_percent,
            disk_percent,
        } = self.targets;
        [
            (NodeResource::Memory, memory_percent, memory),
            (NodeResource::Network, network_percent, 0.0),
            (NodeResource::Disk, disk_percent, 0.0),
        ]
        .into_iter()
        .filter_map(|(resource, target, added)| {
            let plugin = TargetLoadPacking::with_target(Some(target?));
            let expected = load.get(resource)?.average_percent + added;
            let is_above = expected > plugin.target_percent as f64;
            is_above.then(|| plugin.of_percent(expected))
        })
        .min()
        .unwrap_or(100)
    }
}

impl NodeState<'_> {
    /// Computes the part of [`Policy::LowRiskOverCommitment`] that does not depend on a pod, so that
    /// the next scores find it in the cache.
    pub fn cache_load_risk(&self, plugin: &LowRiskOverCommitment) {
        if let (Some(cache), Some(load)) = (self.load_risk, known_load(self)) {
            cache.get(plugin, &committed(self, load));
        }
    }
}

fn committed(node: &NodeState, load: &NodeLoad) -> NodeCommitment {
    NodeCommitment {
        cpu: load.cpu,
        memory: load.memory,
        allocatable: node.allocatable,
        pods: node.commitment,
        reserved: node.reserved,
    }
}

/// Measured load; 0 for a node without pods, such as a new one.
fn known_load<'a>(node: &NodeState<'a>) -> Option<&'a NodeLoad> {
    node.load.or((node.pods == 0).then_some(&IDLE))
}

fn rise(pod: &PodDemand, node: &NodeState) -> Option<i64> {
    node.power?.rise(
        known_load(node)?.cpu.map(|usage| usage.average_percent),
        node.capacity.cpu_millicores,
        pod.load.cpu_millicores,
        node.reserved.cpu_millicores,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: Amounts = Amounts {
        cpu_millicores: 4000,
        memory_bytes: 1000,
    };

    fn usage(average_percent: f64) -> Usage {
        Usage {
            average_percent,
            deviation_percent: 0.0,
        }
    }

    fn load(cpu: f64, memory: f64, network: Option<f64>) -> NodeLoad {
        NodeLoad {
            cpu: Some(usage(cpu)),
            memory: Some(usage(memory)),
            network: network.map(usage),
            disk: None,
        }
    }

    fn node(load: Option<&NodeLoad>) -> NodeState<'_> {
        NodeState {
            capacity: SIZE,
            allocatable: SIZE,
            pods: 3,
            load,
            ..NodeState::default()
        }
    }

    fn packing() -> Policy {
        Policy::TargetLoadPacking(TargetLoadPacking::with_target(Some(50)))
    }

    fn demand(cpu_millicores: i64, memory_bytes: i64) -> PodDemand {
        let load = Amounts {
            cpu_millicores,
            memory_bytes,
        };
        PodDemand {
            load,
            commitment: Commitment {
                requests: load,
                limits: load,
            },
        }
    }

    #[test]
    fn resources_above_their_target_lower_the_score_of_the_policy() {
        let none = PressureTargets::default();
        let memory = PressureTargets {
            memory_percent: Some(80),
            ..none
        };
        let network = PressureTargets {
            network_percent: Some(60),
            ..none
        };
        for (targets, load, expected) in [
            (none, load(50.0, 95.0, Some(99.0)), 100),
            (memory, load(50.0, 70.0, None), 100),
            (memory, load(50.0, 70.1, None), 80),
            (memory, load(50.0, 85.0, None), 20),
            (memory, load(90.0, 71.0, None), 10),
            (memory, load(50.0, 95.0, None), 0),
            (network, load(50.0, 0.0, None), 100),
            (network, load(50.0, 0.0, Some(80.0)), 30),
        ] {
            let prioritizer = Prioritizer {
                policy: packing(),
                targets,
            };
            let found = prioritizer.scores(&demand(0, 100), &[node(Some(&load))], None);
            assert_eq!(found, [expected], "{targets:?} {load:?}");
        }
    }

    #[test]
    fn a_node_without_metrics_is_idle_without_pods_and_else_last() {
        let measured = load(25.0, 0.0, None);
        let new = NodeState {
            pods: 0,
            ..node(None)
        };
        let prioritizer = Prioritizer {
            policy: packing(),
            targets: PressureTargets::default(),
        };
        let nodes = [node(Some(&measured)), new, node(None)];
        assert_eq!(prioritizer.scores(&demand(0, 0), &nodes, None), [75, 50, 0]);
        let reserved = NodeState {
            reserved: SIZE,
            ..new
        };
        let found = prioritizer.scores(&demand(0, 0), &[new, reserved], None);
        assert_eq!(found, [50, 0], "a burst moves on");
    }

    #[test]
    fn without_metrics_requests_decide() {
        let busy = NodeState {
            commitment: Commitment {
                requests: Amounts {
                    cpu_millicores: 2000,
                    memory_bytes: 500,
                },
                limits: SIZE,
            },
            ..node(None)
        };
        let spread = Policy::LoadVariationRiskBalancing(LoadVariationRiskBalancing::default());
        for (policy, expected) in [(packing(), [75, 25]), (spread, [25, 75])] {
            let prioritizer = Prioritizer {
                policy,
                targets: PressureTargets::default(),
            };
            let reason = FallbackReason::StaleMetrics { age_seconds: 400 };
            let nodes = [busy, node(None)];
            let found = prioritizer.scores(&demand(1000, 250), &nodes, Some(reason));
            assert_eq!(found, expected, "{policy:?}");
        }
    }

    #[test]
    fn peaks_ranks_unknown_and_full_nodes_last() {
        let loads = [
            load(20.0, 0.0, None),
            load(60.0, 0.0, None),
            load(99.0, 0.0, None),
        ];
        let power = Some(PowerModel {
            k0: 400.0,
            k1: -300.0,
            k2: -0.05,
        });
        let mut nodes: Vec<_> = loads
            .iter()
            .map(|load| NodeState {
                power,
                ..node(Some(load))
            })
            .collect();
        nodes.push(node(Some(&loads[0])));
        let prioritizer = Prioritizer {
            policy: Policy::Peaks,
            targets: PressureTargets::default(),
        };
        let found = prioritizer.scores(&demand(400, 0), &nodes, None);
        assert_eq!(found, [0, 100, 0, 0]);
    }

    proptest! {
        #[test]
        fn scores_are_in_range(
            policy in 0..4_usize,
            cpu in prop::num::f64::ANY,
            memory in -10.0..200.0_f64,
            size in 0..10_000_i64,
            amounts in prop::array::uniform4(0..20_000_i64),
            target in -5..150_i64,
        ) {
            let policy = [
                packing(),
                Policy::LoadVariationRiskBalancing(LoadVariationRiskBalancing::default()),
                Policy::LowRiskOverCommitment(LowRiskOverCommitment::default()),
                Policy::Peaks,
            ][policy];
            let loads = [load(cpu, memory, Some(cpu)), load(memory, cpu, None)];
            let size = Amounts { cpu_millicores: size, memory_bytes: size };
            let of = |load| NodeState {
                capacity: size,
                allocatable: size,
                reserved: Amounts { cpu_millicores: amounts[0], memory_bytes: amounts[1] },
                power: Some(PowerModel { k0: 1.0, k1: cpu, k2: memory }),
                ..node(Some(load))
            };
            let prioritizer = Prioritizer {
                policy,
                targets: PressureTargets {
                    memory_percent: Some(target),
                    network_percent: Some(target),
                    disk_percent: Some(target),
                },
            };
            let nodes = [of(&loads[0]), of(&loads[1])];
            let pod = demand(amounts[2], amounts[3]);
            for fallback in [None, Some(FallbackReason::NoMetrics)] {
                for score in prioritizer.scores(&pod, &nodes, fallback) {
                    prop_assert!((0..=100).contains(&score), "{score}");
                }
            }
        }
    }
}

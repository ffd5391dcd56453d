//! Karpenter's `NodePool` and `NodeClaim`, and the node groups of cluster-autoscaler, reduced to
//! the nodes that could come.

use api::ParseError;
use api::cluster_autoscaler::{ClusterAutoscalerStatus, STATUS_KEY};
use api::karpenter;
use k8s_openapi::api::core::v1::ConfigMap;
use model::{Cpu, Labels, Memory, Quantity, ResourceList, ResourceName, Taint};

use crate::effective_resources::{Resources, is_common};
use crate::node::NODE_GROUP_LABELS;
use crate::pod_placement::taint;
use crate::table::ObjectKey;

/// Maximum number of node groups of cluster-autoscaler. Further ones are ignored.
const MAX_GROUPS: usize = 1000;

/// Nodes that Karpenter may add.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePool {
    /// Name, which is that of the node group.
    pub name: String,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    /// Whether demand adds nodes: it is ready, has no fixed number of nodes and is not at the limit
    /// of their number.
    pub can_grow: bool,
    /// Limits less the resources of its nodes; unset without a limit.
    pub remaining: Resources,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeClaim {
    pub name: String,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    /// Name of the node, empty before there is one.
    pub node: String,
    pub is_terminating: bool,
    /// Allocatable CPU and memory, or the capacity while these are unknown.
    pub allocatable: Resources,
    pub extended: ResourceList,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoscaledGroups {
    pub key: ObjectKey,
    pub groups: Vec<AutoscaledGroup>,
}

/// A node group of cluster-autoscaler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoscaledGroup {
    /// Name at the cloud provider, without the path of a URL.
    pub name: String,
    /// Whether it is healthy and below its maximum size.
    pub can_grow: bool,
}

impl NodePool {
    pub fn from_k8s(object: karpenter::NodePool) -> Self {
        let name = object.metadata.name.unwrap_or_default();
        let status = object.status.unwrap_or_default();
        let karpenter::NodePoolSpec {
            template,
            limits,
            replicas,
        } = object.spec;
        let mut labels = template.metadata.labels;
        for mut requirement in template.spec.requirements {
            if requirement.operator == "In" && requirement.values.len() == 1 {
                labels.extend(
                    requirement
                        .values
                        .pop()
                        .map(|value| (requirement.key, value)),
                );
            }
        }
        labels.insert(NODE_GROUP_LABELS[0].to_owned(), name.clone());
        let left = |resource: &ResourceName| {
            let limit = limits.get(resource)?;
            let used = status.resources.get(resource).cloned();
            Some(limit - &used.unwrap_or_default())
        };
        let positive = |left: Quantity| !left.is_zero() && !left.is_negative();
        let is_ready = !status
            .conditions
            .iter()
            .any(|condition| condition.kind == "Ready" && condition.status == "False");
        Self {
            name,
            labels: labels.into(),
            taints: template.spec.taints.into_iter().filter_map(taint).collect(),
            can_grow: is_ready
                && replicas.is_none()
                && left(&ResourceName::from("nodes")).is_none_or(positive),
            remaining: Resources {
                cpu: left(&ResourceName::Cpu).map(|left| Cpu::from(&left)),
                memory: left(&ResourceName::Memory).map(|left| Memory::from(&left)),
            },
        }
    }

    pub fn may_add(&self, cpu: Cpu, memory: Memory) -> bool {
        self.can_grow
            && self.remaining.cpu.is_none_or(|left| cpu <= left)
            && self.remaining.memory.is_none_or(|left| memory <= left)
    }
}

impl NodeClaim {
    pub fn from_k8s(object: karpenter::NodeClaim) -> Self {
        let status = object.status.unwrap_or_default();
        let size = if status.allocatable.is_empty() {
            status.capacity
        } else {
            status.allocatable
        };
        let is_extended = |(name, amount): &(&ResourceName, &Quantity)| {
            !is_common(name.as_str()) && !amount.is_zero()
        };
        let extended = size.iter().filter(is_extended);
        Self {
            name: object.metadata.name.unwrap_or_default(),
            labels: object.metadata.labels.unwrap_or_default().into(),
            taints: object.spec.taints.into_iter().filter_map(taint).collect(),
            node: status.node_name,
            is_terminating: object.metadata.deletion_timestamp.is_some(),
            allocatable: Resources {
                cpu: size.cpu(),
                memory: size.memory(),
            },
            extended: extended
                .map(|(name, amount)| (name.clone(), amount.clone()))
                .collect(),
        }
    }
}

impl AutoscaledGroups {
    /// Reads the status `ConfigMap`. The error names the key in it.
    pub fn from_k8s(object: ConfigMap) -> Result<Self, ParseError> {
        let key = ObjectKey::of(object.metadata.namespace, object.metadata.name);
        let data = object.data.unwrap_or_default();
        let text = data.get(STATUS_KEY).map_or("", String::as_str);
        let status = ClusterAutoscalerStatus::parse(text)?;
        let groups = status.node_groups.into_iter().take(MAX_GROUPS);
        let groups = groups.map(|group| AutoscaledGroup {
            name: group.name.rsplit('/').next().unwrap_or_default().to_owned(),
            can_grow: group.health.status == "Healthy"
                && group.health.cloud_provider_target < group.health.max_size,
        });
        Ok(Self {
            key,
            groups: groups.collect(),
        })
    }
}

impl AutoscaledGroup {
    /// Whether it is the group with this value of a node's label. EKS, GKE and AKS put the value
    /// between dashes: `eks-workers-a2c1`, `gke-cluster-workers-a2c1-grp`,
    /// `aks-workers-12345-vmss`.
    pub fn may_be(&self, group: &str) -> bool {
        format!("-{}-", self.name).contains(&format!("-{group}-"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(limits: &Value, resources: &Value, replicas: Option<i64>, ready: &str) -> NodePool {
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "batch"},
            "spec": {
                "template": {
                    "metadata": {"labels": {"team": "data"}},
                    "spec": {
                        "taints": [{"key": "batch", "effect": "NoSchedule"}],
                        "requirements": [
                            {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
                            {"key": "zone", "operator": "In", "values": ["a", "b"]},
                            {"key": "cores", "operator": "Gt", "values": ["4"]},
                        ],
                        "nodeClassRef": {"kind": "EC2NodeClass", "name": "default"},
                    },
                },
                "limits": limits, "replicas": replicas,
            },
            "status": {"resources": resources, "conditions": [{"type": "Ready", "status": ready}]},
        });
        NodePool::from_k8s(serde_json::from_value(object).expect("a pool"))
    }

    #[test]
    fn a_pool_may_add_what_its_limits_leave() {
        let full = json!({"cpu": 100, "memory": "400Gi", "nodes": "3"});
        let used = json!({"cpu": "84", "memory": "336Gi", "nodes": "2"});
        let three = json!({"nodes": "3"});
        for (limits, resources, replicas, ready, cores, expected) in [
            (&full, &used, None, "True", 16, true),
            (&full, &used, None, "Unknown", 16, true),
            (&full, &used, None, "True", 17, false),
            (&full, &used, None, "False", 16, false),
            (&full, &used, Some(2), "True", 16, false),
            (&full, &three, None, "True", 16, false),
            (&full, &json!({}), None, "True", 100, true),
            (&json!({}), &used, None, "True", 1000, true),
        ] {
            let pool = pool(limits, resources, replicas, ready);
            let (cpu, memory) = (
                Cpu::from_millicores(cores * 1000),
                Memory::from_bytes(64 << 30),
            );
            assert_eq!(
                pool.may_add(cpu, memory),
                expected,
                "{limits} {resources} {ready}"
            );
        }
        let pool = pool(&full, &used, None, "True");
        let remaining = Resources {
            cpu: Some(Cpu::from_millicores(16_000)),
            memory: Some(Memory::from_bytes(64 << 30)),
        };
        assert_eq!(pool.remaining, remaining);
        let labels = [
            ("karpenter.sh/nodepool", "batch"),
            ("kubernetes.io/arch", "arm64"),
            ("team", "data"),
        ];
        assert_eq!(pool.labels, Labels::from_iter(labels));
        assert_eq!(pool.taints[0].key, "batch");
    }

    #[test]
    fn a_claim_has_the_shape_of_its_node() {
        let claim = |status: Value| {
            let object = json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": "batch-x7", "labels": {"karpenter.sh/nodepool": "batch"}},
                "spec": {"taints": [{"key": "batch", "effect": "NoExecute"}], "resources": {"requests": {"cpu": "1"}}},
                "status": status,
            });
            NodeClaim::from_k8s(serde_json::from_value(object).expect("a claim"))
        };
        let capacity = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
        let allocatable = json!({"cpu": "15890m", "memory": "60Gi", "nvidia.com/gpu": 1});
        let early = claim(json!({"capacity": capacity}));
        assert_eq!(early.allocatable.cpu, Some(Cpu::from_millicores(16_000)));
        assert_eq!((early.node.as_str(), early.extended.len()), ("", 0));
        let late = json!({"capacity": capacity, "allocatable": allocatable, "nodeName": "n1"});
        let late = claim(late);
        assert_eq!(late.allocatable.cpu, Some(Cpu::from_millicores(15_890)));
        assert_eq!((late.node.as_str(), late.extended.len()), ("n1", 1));
        assert_eq!((late.taints.len(), late.is_terminating), (1, false));
    }

    #[test]
    fn a_group_at_its_maximum_or_unhealthy_cannot_grow() {
        let text = "
autoscalerStatus: Running
nodeGroups:
- {name: eks-workers-a2c1, health: {status: Healthy, cloudProviderTarget: 3, maxSize: 10}}
- {name: \"https://compute/v1/p/zones/z/instanceGroups/gke-c-pool-1-ab12-grp\", health: {status: Healthy, cloudProviderTarget: 3, maxSize: 3}}
- {name: aks-nodepool1-123-vmss, health: {status: Unhealthy, cloudProviderTarget: 0, maxSize: 3}}
";
        let object = json!({"metadata": {"namespace": "kube-system", "name": "cluster-autoscaler-status"}, "data": {"status": text}});
        let object = serde_json::from_value(object).expect("a ConfigMap");
        let groups = AutoscaledGroups::from_k8s(object).expect("a status").groups;
        for (index, label, expected) in [
            (0, "workers", true),
            (1, "pool-1", false),
            (2, "nodepool1", false),
        ] {
            assert!(groups[index].may_be(label), "{:?}", groups[index]);
            assert_eq!(groups[index].can_grow, expected, "{label}");
        }
        assert!(!groups[0].may_be("work") && !groups[1].may_be("pool-12"));
    }
}

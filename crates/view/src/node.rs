//! Nodes, their groups (the nodes that one node pool, node group or agent pool adds), and the resources
//! that the pod of a `DaemonSet` takes on each eligible node.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1;
use model::{Labels, NodeConstraints, ResourceList, Taint};

use crate::effective_resources::{Requirements, Resources, extended};
use crate::pod_placement::{PodPlacement, taint};
use crate::table::ObjectKey;

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub name: String,
    pub labels: Labels,
    /// Taints, without those for passing conditions such as `node.kubernetes.io/not-ready`.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned (`spec.unschedulable`).
    pub is_cordoned: bool,
    /// CPU and memory of the machine.
    pub capacity: Resources,
    pub allocatable: Resources,
    pub extended: ResourceList,
    /// IP addresses and host names, at most 16; empty unless they are watched.
    pub addresses: Vec<String>,
}

const MAX_ADDRESSES: usize = 16;

impl Node {
    pub fn from_k8s(object: v1::Node) -> Self {
        let (spec, status) = (
            object.spec.unwrap_or_default(),
            object.status.unwrap_or_default(),
        );
        Self {
            name: object.metadata.name.unwrap_or_default(),
            labels: object.metadata.labels.unwrap_or_default().into(),
            taints: spec
                .taints
                .into_iter()
                .flatten()
                .filter_map(taint)
                .collect(),
            is_cordoned: spec.unschedulable == Some(true),
            capacity: Resources::of(status.capacity.as_ref()),
            allocatable: Resources::of(status.allocatable.as_ref()),
            extended: extended(status.allocatable.iter()),
            addresses: status
                .addresses
                .into_iter()
                .flatten()
                .take(MAX_ADDRESSES)
                .map(|address| address.address)
                .collect(),
        }
    }
}

/// Label of the group, set by Karpenter, EKS, GKE and AKS. The first one that a node has counts.
pub const NODE_GROUP_LABELS: [&str; 4] = [
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
];
/// Label that stands in where a node has no label of a group.
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

/// The group of a node with these labels; `None` without a label of a group and an instance type.
pub fn node_group(labels: &Labels) -> Option<&str> {
    let mut values = NODE_GROUP_LABELS
        .into_iter()
        .chain([INSTANCE_TYPE])
        .filter_map(|label| labels.get(label));
    values.find(|value| !value.is_empty())
}

#[derive(Debug, Clone, PartialEq)]
pub struct DaemonSetShare {
    pub key: ObjectKey,
    pub constraints: NodeConstraints,
    /// Requests and limits of one pod.
    pub requirements: Requirements,
}

impl DaemonSetShare {
    pub fn from_k8s(object: DaemonSet) -> Self {
        let key = ObjectKey::of(object.metadata.namespace, object.metadata.name);
        let spec = object.spec.template.spec.unwrap_or_default();
        let containers = spec
            .containers
            .iter()
            .map(|container| Requirements::of(container.resources.as_ref()).or_limits())
            .fold(Requirements::default(), Requirements::plus);
        let of_pod = Requirements::of(spec.resources.as_ref());
        let placement = PodPlacement::from_k8s(None, &spec);
        Self {
            key,
            requirements: placement.total(containers, of_pod).or_limits(),
            constraints: placement.constraints,
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{Cpu, Effect, Memory};
    use serde_json::{Value, json};

    use super::*;
    use crate::effective_resources::Resources;

    fn from_k8s(object: Value) -> Node {
        Node::from_k8s(serde_json::from_value(object).expect("a node"))
    }

    #[test]
    fn the_size_of_a_node_counts_however_it_is_doing_now() {
        let mut object = json!({
            "metadata": {"name": "n1", "labels": {"pool": "big"}},
            "spec": {"taints": [
                {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
                {"key": "gpu", "value": "a", "effect": "NoSchedule"},
                {"key": "spot", "effect": "PreferNoSchedule"},
            ]},
            "status": {"capacity": {"cpu": "8", "memory": "2Gi"}, "addresses": [{"type": "InternalIP", "address": "10.1.0.1"}], "allocatable": {"cpu": "7910m", "memory": "1Gi", "pods": "110", "nvidia.com/gpu": "4"}},
        });
        let node = from_k8s(object.clone());
        let gpu = Taint {
            key: "gpu".to_owned(),
            value: "a".to_owned(),
            effect: Effect::NoSchedule,
        };
        let gpus = "4".parse().expect("a quantity");
        let expected = Node {
            name: "n1".to_owned(),
            labels: Labels::from_iter([("pool", "big")]),
            taints: vec![gpu],
            is_cordoned: false,
            capacity: Resources {
                cpu: Some(Cpu::from_millicores(8000)),
                memory: Some(Memory::from_bytes(2 << 30)),
            },
            allocatable: Resources {
                cpu: Some(Cpu::from_millicores(7910)),
                memory: Some(Memory::from_bytes(1 << 30)),
            },
            extended: ResourceList::from_iter([("nvidia.com/gpu".into(), gpus)]),
            addresses: vec!["10.1.0.1".to_owned()],
        };
        assert_eq!(node, expected);
        object["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
        assert_eq!(from_k8s(object.clone()), node);
        object["spec"]["unschedulable"] = json!(true);
        assert!(from_k8s(object).is_cordoned);
    }

    #[test]
    fn the_first_label_of_the_table_names_the_group() {
        for (labels, expected) in [
            (&[][..], None),
            (&[("pool", "big")], None),
            (
                &[("node.kubernetes.io/instance-type", "m5.large")],
                Some("m5.large"),
            ),
            (
                &[
                    ("node.kubernetes.io/instance-type", "m5.large"),
                    ("eks.amazonaws.com/nodegroup", "workers"),
                ],
                Some("workers"),
            ),
            (
                &[
                    ("cloud.google.com/gke-nodepool", "pool-1"),
                    ("karpenter.sh/nodepool", ""),
                ],
                Some("pool-1"),
            ),
            (
                &[
                    ("kubernetes.azure.com/agentpool", "nodepool1"),
                    ("karpenter.sh/nodepool", "default"),
                ],
                Some("default"),
            ),
        ] {
            let labels: Labels = labels.iter().copied().collect();
            assert_eq!(node_group(&labels), expected, "{labels}");
        }
    }

    #[test]
    fn a_template_gives_constraints_and_resources_of_its_pods() {
        let object = json!({
            "metadata": {"namespace": "kube-system", "name": "proxy"},
            "spec": {
                "selector": {},
                "template": {"spec": {
                    "nodeSelector": {"os": "linux"},
                    "containers": [
                        {"name": "a", "resources": {"requests": {"cpu": "100m"}}},
                        {"name": "b", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Mi"}}},
                    ],
                }},
            },
        });
        let daemon =
            DaemonSetShare::from_k8s(serde_json::from_value(object).expect("a daemon set"));
        assert_eq!(daemon.key, ObjectKey::new("kube-system", "proxy"));
        assert_eq!(daemon.constraints.selector.get("os"), Some("linux"));
        // A limit without a request is the request.
        let requests = Resources {
            cpu: Some(Cpu::from_millicores(1100)),
            memory: Some(Memory::from_bytes(1 << 20)),
        };
        assert_eq!(daemon.requirements.requests, requests);
    }
}

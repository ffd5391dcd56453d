//! A node, reduced to its scheduling constraints and its size.

use k8s_openapi::api::core::v1;
use model::{Labels, ResourceList, Taint};

use crate::effective_resources::{Resources, extended};
use crate::pod_placement::taint;

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

#[cfg(test)]
mod tests {
    use model::{Cpu, Effect, Memory};
    use serde_json::{Value, json};

    use super::*;

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
}

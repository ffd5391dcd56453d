//! Capacity and addresses of the nodes.

use std::collections::HashMap;

use view::{Node, View};

pub(super) type Nodes = HashMap<String, NodeInfo>;

/// Size and addresses of a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct NodeInfo {
    /// Capacity in millicores; `None` if unknown or 0.
    pub(super) millicores: Option<f64>,
    /// Capacity in bytes; `None` if unknown or 0.
    pub(super) memory_bytes: Option<f64>,
    pub(super) addresses: Vec<String>,
}

impl NodeInfo {
    fn of(node: &Node) -> Self {
        let positive = |amount: i64| (amount > 0).then_some(amount as f64);
        let capacity = &node.capacity;
        Self {
            millicores: capacity.cpu.and_then(|cpu| positive(cpu.millicores())),
            memory_bytes: capacity.memory.and_then(|memory| positive(memory.bytes())),
            addresses: node.addresses.clone(),
        }
    }
}

pub(super) fn nodes(view: &View) -> Nodes {
    let named = |node: &std::sync::Arc<Node>| (node.name.clone(), NodeInfo::of(node));
    view.nodes.iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_capacity_of_a_node_is_read_and_zero_is_unknown() {
        for (capacity, millicores, memory_bytes) in [
            (
                json!({"cpu": "4", "memory": "8Gi", "pods": "110"}),
                Some(4000.0),
                Some(8.0 * 1_073_741_824.0),
            ),
            (json!({"cpu": "0", "memory": "0"}), None, None),
            (json!({"cpu": "-1"}), None, None),
            (json!({}), None, None),
        ] {
            let node = json!({
                "metadata": {"name": "n1"},
                "status": {"capacity": capacity, "addresses": [{"type": "InternalIP", "address": "10.1.0.1"}]},
            });
            let node = Node::from_k8s(serde_json::from_value(node).expect("a node"));
            let expected = NodeInfo {
                millicores,
                memory_bytes,
                addresses: vec!["10.1.0.1".to_owned()],
            };
            assert_eq!(NodeInfo::of(&node), expected);
        }
    }
}

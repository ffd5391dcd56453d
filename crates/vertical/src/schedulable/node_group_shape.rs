//! Shapes of the nodes of groups that may have none, as an operator gives them.

use std::collections::BTreeMap;

use model::{Labels, ResourceList, ResourceName, Taint, is_label_name, is_label_value};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use sizing::{Amounts, NodeInfo};
use view::NODE_GROUP_LABELS;

/// Label of every node of Linux.
const OS: (&str, &str) = ("kubernetes.io/os", "linux");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    allocatable: ResourceList,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    taints: Vec<Taint>,
}

/// Deserializes shapes by the names of their groups.
pub(super) fn nodes<'de, D: Deserializer<'de>>(shapes: D) -> Result<Vec<NodeInfo>, D::Error> {
    let shapes: BTreeMap<String, Shape> = Deserialize::deserialize(shapes)?;
    let nodes = shapes.into_iter().map(|(group, shape)| {
        let node = shape.node(&group);
        node.map_err(|error| D::Error::custom(format!("{group}: {error}")))
    });
    nodes.collect()
}

impl Shape {
    fn node(self, group: &str) -> Result<NodeInfo, String> {
        if group.is_empty() || !is_label_value(group) {
            return Err("is not a name of a node group".to_owned());
        }
        let of_group = NODE_GROUP_LABELS.map(|label| (label, group));
        let mut labels: BTreeMap<String, String> = of_group
            .into_iter()
            .chain([OS])
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        labels.extend(self.labels);
        let of_taints = self.taints.iter().map(|taint| (&taint.key, &taint.value));
        for (key, value) in labels.iter().chain(of_taints) {
            if !is_label_name(key) || !is_label_value(value) {
                return Err(format!("{key}={value} is no label or taint"));
            }
        }
        let mut extended = self.allocatable;
        for (name, amount) in extended.iter() {
            if amount.is_negative() || amount.is_zero() || !is_label_name(name.as_str()) {
                return Err(format!(
                    "{} is no resource with a positive amount",
                    name.as_str()
                ));
            }
        }
        let allocatable = Amounts {
            cpu: extended.cpu().ok_or("allocatable has no cpu")?,
            memory: extended.memory().ok_or("allocatable has no memory")?,
        };
        extended.remove(&ResourceName::Cpu);
        extended.remove(&ResourceName::Memory);
        Ok(NodeInfo {
            labels: labels.into(),
            taints: self.taints,
            allocatable,
            extended,
            ..new_node(group)
        })
    }
}

/// A node of a group, without what a shape, a claim or another node tells of it.
pub(super) fn new_node(group: &str) -> NodeInfo {
    NodeInfo {
        name: group.to_owned(),
        could_come: true,
        labels: Labels::default(),
        taints: Vec::new(),
        allocatable: Amounts::default(),
        extended: ResourceList::new(),
        bound: Amounts::default(),
    }
}

#[cfg(test)]
mod tests {
    use model::{Cpu, Effect, Memory};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_shape_has_amounts_labels_and_taints() {
        let shapes = json!({"gpu": {
            "allocatable": {"cpu": "15500m", "memory": "64Gi", "nvidia.com/gpu": 4},
            "labels": {"pool": "big", "kubernetes.io/os": "windows"},
            "taints": [
                {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
                {"key": "spot", "effect": "NoExecute"},
            ],
        }});
        let node = nodes(shapes).expect("a shape").pop().expect("a node");
        assert_eq!((node.name.as_str(), node.could_come), ("gpu", true));
        let (cpu, memory) = (Cpu::from_millicores(15_500), Memory::from_bytes(64 << 30));
        assert_eq!(node.allocatable, Amounts { cpu, memory });
        for (label, value) in [
            ("pool", "big"),
            ("kubernetes.io/os", "windows"),
            ("karpenter.sh/nodepool", "gpu"),
            ("eks.amazonaws.com/nodegroup", "gpu"),
            ("cloud.google.com/gke-nodepool", "gpu"),
            ("kubernetes.azure.com/agentpool", "gpu"),
        ] {
            assert_eq!(node.labels.get(label), Some(value), "{label}");
        }
        let taints = node.taints.iter();
        let taints: Vec<_> = taints
            .map(|taint| (taint.key.as_str(), taint.value.as_str(), taint.effect))
            .collect();
        let expected = [
            ("gpu", "yes", Effect::NoSchedule),
            ("spot", "", Effect::NoExecute),
        ];
        assert_eq!(taints, expected);
        let gpus = node.extended.get(&ResourceName::from("nvidia.com/gpu"));
        assert_eq!(gpus, Some(&"4".parse().expect("a quantity")));
        assert_eq!(node.extended.len(), 1);
    }

    fn check(group: &str, change: &Value, expected: &str) {
        let mut shape = json!({"allocatable": {"cpu": 1, "memory": "1Gi"}});
        json_patch::merge(&mut shape, change);
        let error = nodes(json!({group: shape})).expect_err(expected);
        let error = error.to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn an_error_names_the_part_that_is_wrong() {
        check("", &json!({}), "is not a name");
        check("a b", &json!({}), "a b: is not a name");
        for (field, amount, expected) in [
            ("memory", Value::Null, "big: allocatable has no memory"),
            ("cpu", Value::Null, "big: allocatable has no cpu"),
            ("cpu", json!(0), "big: cpu is no resource"),
            ("cpu", json!(-1), "big: cpu is no resource"),
            ("memory", json!("1Gb"), "quantities must match"),
            ("a b", json!(1), "big: a b is no resource"),
        ] {
            check("big", &json!({"allocatable": {field: amount}}), expected);
        }
        check("big", &json!({"labels": {"a": "b c"}}), "big: a=b c is no");
        for (taint, expected) in [
            (
                json!({"key": "a b", "effect": "NoExecute"}),
                "big: a b= is no",
            ),
            (json!({"key": "a"}), "missing field `effect`"),
            (json!({"key": "a", "effect": "Never"}), "unknown variant"),
        ] {
            check("big", &json!({"taints": [taint]}), expected);
        }
    }
}

//! Shape of the nodes of a group without nodes, as an operator gives it by flag.

use std::collections::BTreeMap;
use std::str::FromStr;

use model::{
    Cpu, Effect, Labels, Memory, Quantity, ResourceList, ResourceName, Taint, is_label_name,
    is_label_value,
};
use sizing::{Amounts, NodeInfo};
use view::NODE_GROUP_LABELS;

/// Label of every node of Linux.
const OS: (&str, &str) = ("kubernetes.io/os", "linux");

/// Group of nodes and the shape of one of its nodes, from
/// `GROUP=cpu=16,memory=64Gi,label:KEY=VALUE,taint:KEY=VALUE:EFFECT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeGroupShape {
    /// A node of the group, with its name.
    pub(super) node: NodeInfo,
}

/// Parts of a shape that have been read.
#[derive(Default)]
struct Parts {
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    cpu: Option<Cpu>,
    memory: Option<Memory>,
    extended: ResourceList,
}

impl FromStr for NodeGroupShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (group, list) = text
            .split_once('=')
            .ok_or("must be GROUP=cpu=AMOUNT,memory=AMOUNT")?;
        if group.is_empty() || !is_label_value(group) {
            return Err(format!("{group:?} is not a name of a node group"));
        }
        let mut parts = Parts::default();
        let labels = NODE_GROUP_LABELS.map(|label| (label, group));
        for (key, value) in labels.into_iter().chain([OS]) {
            parts.labels.insert(key.to_owned(), value.to_owned());
        }
        for part in list.split(',') {
            parts.add(part.trim())?;
        }
        let missing = |resource| format!("node group {group} has no {resource}");
        let node = NodeInfo {
            labels: parts.labels.into(),
            taints: parts.taints,
            allocatable: Amounts {
                cpu: parts.cpu.ok_or_else(|| missing("cpu"))?,
                memory: parts.memory.ok_or_else(|| missing("memory"))?,
            },
            extended: parts.extended,
            ..new_node(group)
        };
        Ok(Self { node })
    }
}

impl Parts {
    fn add(&mut self, part: &str) -> Result<(), String> {
        if let Some(label) = part.strip_prefix("label:") {
            return self.add_label(label);
        }
        if let Some(taint) = part.strip_prefix("taint:") {
            self.taints.push(taint_of(taint)?);
            return Ok(());
        }
        let (name, amount) = part
            .split_once('=')
            .ok_or_else(|| format!("{part:?} is not RESOURCE=AMOUNT"))?;
        let quantity = amount.parse::<Quantity>().ok();
        let positive = quantity.filter(|amount| !amount.is_negative() && !amount.is_zero());
        let amount = positive.ok_or_else(|| format!("{part:?} has no positive quantity"))?;
        match ResourceName::from(name) {
            ResourceName::Cpu => self.cpu = Some(Cpu::from(&amount)),
            ResourceName::Memory => self.memory = Some(Memory::from(&amount)),
            name if is_label_name(name.as_str()) => self.extended.insert(name, amount),
            ResourceName::Other(_) => return Err(format!("{name:?} is not a resource")),
        }
        Ok(())
    }

    fn add_label(&mut self, text: &str) -> Result<(), String> {
        match text.split_once('=') {
            Some((key, value)) if is_label_name(key) && is_label_value(value) => {
                self.labels.insert(key.to_owned(), value.to_owned());
                Ok(())
            }
            _ => Err(format!("{text:?} is not KEY=VALUE, a label of nodes")),
        }
    }
}

/// Parses a taint as kubectl writes it: `KEY=VALUE:EFFECT`, without `=VALUE` for an empty value.
fn taint_of(text: &str) -> Result<Taint, String> {
    let wrong = || format!("{text:?} is not KEY=VALUE:NoSchedule or KEY=VALUE:NoExecute, a taint");
    let (pair, effect) = text.rsplit_once(':').ok_or_else(wrong)?;
    let effect = match effect {
        "NoSchedule" => Effect::NoSchedule,
        "NoExecute" => Effect::NoExecute,
        _ => return Err(wrong()),
    };
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    if !is_label_name(key) || !is_label_value(value) {
        return Err(wrong());
    }
    Ok(Taint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect,
    })
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
    use super::*;

    #[test]
    fn a_shape_has_amounts_labels_and_taints() {
        let text = "gpu=cpu=15500m, memory=64Gi,nvidia.com/gpu=4,label:pool=big,label:kubernetes.io/os=windows,taint:gpu=yes:NoSchedule,taint:spot:NoExecute";
        let shape: NodeGroupShape = text.parse().expect(text);
        let node = shape.node;
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
    }

    #[test]
    fn an_error_names_the_part_that_is_wrong() {
        for (text, expected) in [
            ("", "GROUP=cpu=AMOUNT"),
            ("big", "GROUP=cpu=AMOUNT"),
            ("=cpu=1,memory=1Gi", "\"\" is not a name"),
            ("a b=cpu=1,memory=1Gi", "\"a b\" is not a name"),
            ("big=", "\"\" is not RESOURCE=AMOUNT"),
            ("big=cpu=1", "node group big has no memory"),
            ("big=memory=1Gi", "node group big has no cpu"),
            ("big=cpu=0,memory=1Gi", "\"cpu=0\" has no positive quantity"),
            ("big=cpu=-1,memory=1Gi", "\"cpu=-1\" has no positive"),
            ("big=cpu=1,memory=1Gb", "\"memory=1Gb\" has no positive"),
            ("big=cpu=1,memory=1Gi,label:a", "\"a\" is not KEY=VALUE"),
            (
                "big=cpu=1,memory=1Gi,taint:a=b",
                "\"a=b\" is not KEY=VALUE:",
            ),
            ("big=cpu=1,memory=1Gi,taint:a=b:Never", "a taint"),
            ("big=cpu=1,memory=1Gi,a b=1", "is not a resource"),
        ] {
            let error = text.parse::<NodeGroupShape>().expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}

//! Group of a node: the nodes that one node pool, node group or agent pool adds.

use model::Labels;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}

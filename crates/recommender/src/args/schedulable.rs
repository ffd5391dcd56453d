//! Flags that cap recommendations to what can be scheduled.

use vertical::schedulable::{CapSources, CapacitySources, NodeGroupShape, Settings};

/// Caps of recommendations. Disabled by default, since recommendations then differ from upstream's.
#[derive(Debug, Clone, clap::Args)]
pub struct SchedulableArgs {
    /// Cap recommendations to what pods can be scheduled with: any of nodes, quotas and
    /// limit-ranges, separated by commas. nodes: the allocatable resources of the largest node that
    /// the pods may run on, less daemon pods and a margin; quotas: the part of each quota of the
    /// namespace that is free for each replica; limit-ranges: the maximum of each limit range.
    /// Empty, the default, gives upstream's recommendations. The annotation
    /// plimsoll.dev/cap-to-schedulable of an object narrows the list; none means no cap. Needs the
    /// rights in deploy/components/schedulable. Nodes that could be added count only with
    /// --capacity-from and --node-group-shape.
    #[arg(long, default_value = "", value_name = "LIST")]
    pub cap_to_schedulable: CapSources,
    /// The same for the objects of sizing policies, in addition to --cap-to-schedulable. The component
    /// deploy/components/sizing-policies sets all three and grants the rights. A recommender of one
    /// namespace cannot read nodes.
    #[arg(long, default_value = "", value_name = "LIST")]
    pub cap_policies_to_schedulable: CapSources,
    /// Share of a node's allocatable CPU and memory that stays free when recommendations are capped
    /// to nodes.
    #[arg(long, default_value_t = 0.05, value_name = "FRACTION")]
    pub schedulable_margin_fraction: f64,
    /// Count also nodes that node groups could add, as seen by any of karpenter and
    /// cluster-autoscaler, separated by commas. karpenter: its node pools and node claims;
    /// cluster-autoscaler: its status in kube-system/cluster-autoscaler-status. Empty, the default,
    /// reads neither. Needs the rights in deploy/components/node-capacity.
    #[arg(long, default_value = "", value_name = "LIST")]
    pub capacity_from: CapacitySources,
    /// Allocatable resources of the nodes of a group that may have none, as
    /// GROUP=cpu=16,memory=64Gi. Further parts are other resources, label:KEY=VALUE and
    /// taint:KEY=VALUE:EFFECT. Repeatable, at most 100 times.
    #[arg(long, value_name = "GROUP=SHAPE")]
    pub node_group_shape: Vec<NodeGroupShape>,
}

impl SchedulableArgs {
    /// The settings; `None` without caps.
    pub fn settings(&self) -> anyhow::Result<Option<Settings>> {
        let settings = Settings {
            cap_to: self.cap_to_schedulable,
            cap_policies_to: self.cap_policies_to_schedulable,
            margin: self.schedulable_margin_fraction,
            capacity_from: self.capacity_from,
            shapes: self.node_group_shape.clone(),
        };
        settings.checked().map_err(anyhow::Error::msg)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;

    /// `expected`: whether there are caps; `None` for an invalid command line.
    fn check(line: &str, expected: Option<bool>) {
        let settings = parse(line).and_then(|args| {
            let settings = args.schedulable.settings();
            settings.map_err(|error| error.to_string())
        });
        assert_eq!(settings.ok().map(|it| it.is_some()), expected, "{line}");
    }

    #[test]
    fn nothing_is_capped_unless_asked_for_and_slips_are_noticed() {
        let shape = "--node-group-shape=big=cpu=16,memory=64Gi";
        check("", Some(false));
        check("--cap-to-schedulable=none", Some(false));
        check("--schedulable-margin-fraction=0.1", Some(false));
        check("--cap-policies-to-schedulable=limit-ranges", Some(true));
        check(&format!("--cap-to-schedulable=nodes {shape}"), Some(true));
        check(
            "--cap-to-schedulable=nodes --capacity-from=karpenter",
            Some(true),
        );
        check("--cap-to-schedulable=node", None);
        check(
            "--cap-to-schedulable=nodes --schedulable-margin-fraction=1",
            None,
        );
        check(shape, None);
        check(
            "--cap-to-schedulable=nodes --node-group-shape=big=cpu=1",
            None,
        );
        check("--cap-to-schedulable=nodes --capacity-from=gke", None);
    }
}

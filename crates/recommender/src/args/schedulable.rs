//! Flags that cap recommendations to what can be scheduled.

use anyhow::ensure;

use vertical::schedulable::{CapSources, Settings};

/// Caps of recommendations. Disabled by default, since recommendations then differ from upstream's.
#[derive(Debug, Clone, clap::Args)]
pub struct SchedulableArgs {
    /// Cap recommendations to what pods can be scheduled with: any of nodes, quotas and
    /// limit-ranges, separated by commas. nodes: the allocatable resources of the largest node that
    /// the pods may run on, less daemon pods and a margin; quotas: the part of each quota of the
    /// namespace that is free for each replica; limit-ranges: the maximum of each limit range.
    /// Empty, the default, gives upstream's recommendations. The annotation
    /// plimsoll.dev/cap-to-schedulable of an object narrows the list; none means no cap. Needs the
    /// rights in deploy/components/schedulable. Nodes that a cluster autoscaler could add do not
    /// count.
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
}

impl SchedulableArgs {
    /// The settings; `None` without caps.
    pub fn settings(&self) -> anyhow::Result<Option<Settings>> {
        let margin = self.schedulable_margin_fraction;
        ensure!(
            (0.0..1.0).contains(&margin),
            "--schedulable-margin-fraction must be at least 0 and below 1"
        );
        let settings = Settings {
            cap_to: self.cap_to_schedulable,
            cap_policies_to: self.cap_policies_to_schedulable,
            margin,
        };
        Ok((!settings.sources().is_nothing()).then_some(settings))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::*;

    fn check(line: &str, expected: Option<(bool, bool, bool, f64)>) {
        let settings = parse(line).expect(line).schedulable.settings().expect(line);
        let found = settings.map(|settings| {
            let CapSources {
                nodes,
                quotas,
                limit_ranges,
            } = settings.sources();
            (nodes, quotas, limit_ranges, settings.margin)
        });
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn nothing_is_capped_unless_asked_for() {
        check("", None);
        check("--cap-to-schedulable=none", None);
        check("--schedulable-margin-fraction=0.1", None);
        check(
            "--cap-to-schedulable=nodes",
            Some((true, false, false, 0.05)),
        );
        check(
            "--cap-to-schedulable=quotas --cap-policies-to-schedulable=limit-ranges",
            Some((false, true, true, 0.05)),
        );
        check(
            "--cap-to-schedulable=nodes --schedulable-margin-fraction=0",
            Some((true, false, false, 0.0)),
        );
    }

    #[test]
    fn slips_are_noticed() {
        assert!(parse("--cap-to-schedulable=node").is_err());
        for margin in ["1", "-0.1", "NaN"] {
            let args = parse(&format!(
                "--cap-to-schedulable=nodes --schedulable-margin-fraction={margin}"
            ));
            assert!(
                args.expect("a number").schedulable.settings().is_err(),
                "{margin}"
            );
        }
    }
}

//! Settings of the caps, and their validation.

use std::str::FromStr;

use api::vpa::VerticalPodAutoscaler;
use serde::Deserialize;
use sizing::NodeInfo;

use super::node_group_shape::nodes;
use crate::sizing_policies::desired::is_of_policy;

/// Annotation that users set on a VPA: sources of caps of this object; see
/// docs/sizing.md#recommendations-that-can-be-scheduled.
///
/// It narrows the settings.
pub(crate) const CAP_TO_SCHEDULABLE: &str = "plimsoll.dev/cap-to-schedulable";

/// Maximum number of shapes of node groups.
const MAX_SHAPES: usize = 100;

/// Enabled sources of caps: by settings, narrowed by an object's annotation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CapSources {
    /// Free resources of nodes.
    pub nodes: bool,
    pub quotas: bool,
    pub limit_ranges: bool,
}

impl CapSources {
    /// The sources that both name.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.each(other, |own, other| own && other)
    }

    /// The sources that either names.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.each(other, |own, other| own || other)
    }

    fn each(self, other: Self, combine: fn(bool, bool) -> bool) -> Self {
        Self {
            nodes: combine(self.nodes, other.nodes),
            quotas: combine(self.quotas, other.quotas),
            limit_ranges: combine(self.limit_ranges, other.limit_ranges),
        }
    }

    /// Whether no source is named.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// Settings of the caps, `capping` of the recommender's `--config`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    pub cap_to: CapSources,
    /// Further sources for objects of sizing policies.
    pub cap_policies_to: CapSources,
    /// Share of a node's allocatable resources that stays free.
    pub margin: f64,
    /// Sources of the nodes that node groups could add.
    pub capacity_from: CapacitySources,
    /// Shapes of node groups without nodes.
    #[serde(deserialize_with = "nodes")]
    pub node_groups: Vec<NodeInfo>,
}

/// Sources of the nodes that node groups could add.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CapacitySources {
    /// `NodePool` and `NodeClaim` objects of Karpenter.
    pub karpenter: bool,
    /// The status `ConfigMap` of cluster-autoscaler.
    pub cluster_autoscaler: bool,
}

impl Settings {
    /// The settings, if they are valid; `None` without caps. The error names the setting.
    pub fn checked(self) -> Result<Option<Self>, String> {
        if !(0.0..1.0).contains(&self.margin) {
            let error = "margin must be at least 0 and below 1";
            return Err(error.to_owned());
        }
        let has_capacity =
            self.capacity_from != CapacitySources::default() || !self.node_groups.is_empty();
        if has_capacity && !self.sources().nodes {
            let error = "capacityFrom and nodeGroups need nodes in capTo or capPoliciesTo";
            return Err(error.to_owned());
        }
        let groups = self.node_groups.len();
        if groups > MAX_SHAPES {
            return Err(format!("nodeGroups: at most {MAX_SHAPES}, not {groups}"));
        }
        Ok((!self.sources().is_nothing()).then_some(self))
    }

    pub fn sources(&self) -> CapSources {
        self.cap_to.or(self.cap_policies_to)
    }

    /// The sources for one object. An invalid annotation narrows nothing.
    pub(super) fn sources_of(&self, object: &VerticalPodAutoscaler) -> CapSources {
        let all = if is_of_policy(object) {
            self.sources()
        } else {
            self.cap_to
        };
        own_cap_to(object)
            .and_then(Result::ok)
            .map_or(all, |own| all.and(own))
    }
}

/// The error in the object's annotation, if it is invalid. The settings apply in full then.
pub(crate) fn refused_cap(object: &VerticalPodAutoscaler) -> Option<String> {
    own_cap_to(object)?
        .err()
        .map(|error| format!("annotation {CAP_TO_SCHEDULABLE}: {error}"))
}

fn own_cap_to(object: &VerticalPodAutoscaler) -> Option<Result<CapSources, String>> {
    let text = object
        .metadata
        .annotations
        .as_ref()?
        .get(CAP_TO_SCHEDULABLE)?;
    Some(text.parse())
}

impl FromStr for CapSources {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = words(text, &["nodes", "quotas", "limit-ranges"])?;
        Ok(Self {
            nodes: words.contains(&"nodes"),
            quotas: words.contains(&"quotas"),
            limit_ranges: words.contains(&"limit-ranges"),
        })
    }
}

/// The words of a list, each one of `all`. The word `none` names no source.
fn words<'a>(text: &'a str, all: &[&str]) -> Result<Vec<&'a str>, String> {
    let words = text.split(',').map(str::trim);
    let words: Vec<_> = words
        .filter(|word| !word.is_empty() && *word != "none")
        .collect();
    match words.iter().find(|word| !all.contains(word)) {
        Some(word) => Err(format!("{word:?} is not one of {}", all.join(", "))),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedulable::node_group_shape::new_node;

    /// `expected`: a part of the error, or whether there are caps.
    fn check(
        cap_to: &str,
        margin: f64,
        karpenter: bool,
        groups: usize,
        expected: Result<bool, &str>,
    ) {
        let settings = Settings {
            cap_to: cap_to.parse().expect("known words"),
            cap_policies_to: CapSources::default(),
            margin,
            capacity_from: CapacitySources {
                karpenter,
                ..CapacitySources::default()
            },
            node_groups: vec![new_node("big"); groups],
        };
        let found = settings.checked().map(|settings| settings.is_some());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{cap_to} {groups}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, _) => panic!("{cap_to} {margin} {karpenter} {groups}: {found:?}"),
        }
    }

    #[test]
    fn capacity_counts_only_where_recommendations_are_capped_to_nodes() {
        check("", 0.05, false, 0, Ok(false));
        check("nodes", 0.05, false, 0, Ok(true));
        check("nodes", 0.0, true, 1, Ok(true));
        let needs = "capacityFrom and nodeGroups need nodes";
        check("", 0.05, true, 0, Err(needs));
        check("quotas", 0.05, false, 1, Err(needs));
        let many = "nodeGroups: at most 100, not 101";
        check("nodes", 0.05, false, MAX_SHAPES + 1, Err(many));
        check("nodes", 0.05, false, MAX_SHAPES, Ok(true));
        for margin in [1.0, -0.1, f64::NAN] {
            let error = "margin must be at least 0 and below 1";
            check("nodes", margin, false, 0, Err(error));
        }
    }

    #[test]
    fn an_unknown_source_is_refused() {
        let error = "nodes,node".parse::<CapSources>().expect_err("unknown");
        assert_eq!(error, "\"node\" is not one of nodes, quotas, limit-ranges");
    }

    #[test]
    fn an_object_can_only_ask_for_less() {
        let all: CapSources = "nodes,quotas,limit-ranges".parse().expect("known words");
        let some: CapSources = "nodes, quotas".parse().expect("known words");
        assert_eq!(all.and(some), some);
        assert_eq!(
            "limit-ranges"
                .parse::<CapSources>()
                .expect("known words")
                .and(some),
            CapSources::default()
        );
    }
}

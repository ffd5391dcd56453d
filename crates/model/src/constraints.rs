//! Node constraints of a pod: node selector, required node affinity, tolerations, and extended
//! resources such as devices.
//!
//! Source: `k8s.io/component-helpers/scheduling/corev1` (node affinity,
//! `FindMatchingUntoleratedTaint`).

use serde::Deserialize;

use crate::{Labels, Requirement, ResourceList};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeConstraints {
    pub selector: Labels,
    /// Required node affinity, one term of which must match; `None` for any node.
    pub terms: Option<Vec<NodeTerm>>,
    pub tolerations: Vec<Toleration>,
    /// Required extended resources, such as `nvidia.com/gpu`.
    pub extended: ResourceList,
}

/// Requirements, all of which must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeTerm {
    /// Requirements on labels (`matchExpressions`).
    pub labels: Vec<Requirement>,
    /// Requirements on fields (`matchFields`), of which only `metadata.name` exists.
    pub fields: Vec<Requirement>,
}

#[derive(Clone, Copy, Debug)]
pub struct NodeTraits<'a> {
    pub name: &'a str,
    pub labels: &'a Labels,
    pub taints: &'a [Taint],
    pub extended: &'a ResourceList,
}

impl NodeConstraints {
    pub fn allow(&self, node: NodeTraits) -> bool {
        let has_label = |(key, value)| node.labels.get(key) == Some(value);
        let is_met = |term: &NodeTerm| term.holds(node);
        let is_tolerated = |taint| self.tolerations.iter().any(|it| it.covers(taint));
        let has_amount = |(name, least)| node.extended.get(name) >= Some(least);
        self.selector.iter().all(has_label)
            && self
                .terms
                .as_ref()
                .is_none_or(|terms| terms.iter().any(is_met))
            && node.taints.iter().all(is_tolerated)
            && self.extended.iter().all(has_amount)
    }
}

impl NodeTerm {
    /// Whether all requirements match; a term without requirements matches no node.
    fn holds(&self, node: NodeTraits) -> bool {
        let label = |key: &str| node.labels.get(key);
        let field = |key: &str| (key == "metadata.name").then_some(node.name);
        !(self.labels.is_empty() && self.fields.is_empty())
            && self.labels.iter().all(|label_is| label_is.holds(label))
            && self.fields.iter().all(|field_is| field_is.holds(field))
    }
}

/// Effect of a taint. `PreferNoSchedule` excludes no pod and is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Effect {
    /// New pods are not scheduled.
    NoSchedule,
    /// New pods are not scheduled, and running ones are evicted.
    NoExecute,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taint {
    pub key: String,
    /// Value of the taint, possibly empty.
    #[serde(default)]
    pub value: String,
    pub effect: Effect,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// Key of the taint; empty for every key.
    pub key: String,
    /// Value of the taint; `None` for every value.
    pub value: Option<String>,
    /// Effect of the taint; `None` for every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    pub fn covers(&self, taint: &Taint) -> bool {
        (self.key.is_empty() || self.key == taint.key)
            && self
                .value
                .as_ref()
                .is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Quantity;

    fn set(values: &[&str]) -> BTreeSet<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    fn term(labels: &[Requirement], fields: &[Requirement]) -> NodeTerm {
        NodeTerm {
            labels: labels.to_vec(),
            fields: fields.to_vec(),
        }
    }

    /// The node is `n1` with `pool=big`, `cores=16`, four GPUs and the given taints.
    fn check(constraints: &NodeConstraints, taints: &[Taint], expected: bool) {
        let labels = Labels::from_iter([("pool", "big"), ("cores", "16")]);
        let node = NodeTraits {
            name: "n1",
            labels: &labels,
            taints,
            extended: &gpus("4"),
        };
        let found = constraints.allow(node);
        assert_eq!(found, expected, "{constraints:?} {taints:?}");
    }

    fn by_terms(terms: &[NodeTerm], expected: bool) {
        let constraints = NodeConstraints {
            terms: Some(terms.to_vec()),
            ..NodeConstraints::default()
        };
        check(&constraints, &[], expected);
    }

    #[test]
    fn a_node_has_every_label_of_the_selector() {
        let select = |pairs: &[(&str, &str)]| NodeConstraints {
            selector: pairs.iter().copied().collect(),
            ..Default::default()
        };
        check(&select(&[]), &[], true);
        check(&select(&[("pool", "big")]), &[], true);
        check(&select(&[("pool", "small")]), &[], false);
        check(&select(&[("pool", "big"), ("zone", "a")]), &[], false);
    }

    #[test]
    fn a_node_meets_one_term_in_all_its_parts() {
        use Requirement::{DoesNotExist, Exists, GreaterThan, In, LessThan, NotIn};
        for (requirement, expected) in [
            (In("pool".into(), set(&["big", "huge"])), true),
            (NotIn("pool".into(), set(&["big"])), false),
            (NotIn("zone".into(), set(&["a"])), true),
            (GreaterThan("cores".into(), 15), true),
            (LessThan("cores".into(), 16), false),
            (GreaterThan("pool".into(), 1), false),
        ] {
            by_terms(&[term(&[requirement], &[])], expected);
        }
        for (operator, expected) in [(In as fn(_, _) -> _, true), (NotIn, false)] {
            let name = operator("metadata.name".into(), set(&["n1"]));
            by_terms(&[term(&[], &[name])], expected);
        }
        let big = In("pool".into(), set(&["big", "huge"]));
        let [pool, zone] = ["pool", "zone"].map(|key| Exists(key.into()));
        let no_zone = DoesNotExist("zone".into());
        by_terms(&[term(&[pool, no_zone], &[])], true);
        by_terms(&[term(&[big.clone(), zone], &[]), term(&[big], &[])], true);
        by_terms(&[term(&[], &[])], false);
        by_terms(&[], false);
    }

    fn gpus(count: &str) -> ResourceList {
        [("nvidia.com/gpu".into(), count.parse().expect(count))]
            .into_iter()
            .collect()
    }

    #[test]
    fn a_node_has_enough_of_extended_resources() {
        let need = |extended| NodeConstraints {
            extended,
            ..NodeConstraints::default()
        };
        check(&need(gpus("4")), &[], true);
        check(&need(gpus("5")), &[], false);
        let fpga = [("example.com/fpga".into(), Quantity::from_milli(1000))];
        check(&need(fpga.into_iter().collect()), &[], false);
    }

    #[test]
    fn every_taint_is_tolerated() {
        let taint = |effect| Taint {
            key: "gpu".to_owned(),
            value: "a100".to_owned(),
            effect,
        };
        let tolerate = |key: &str, value: Option<&str>, effect| NodeConstraints {
            tolerations: vec![Toleration {
                key: key.to_owned(),
                value: value.map(str::to_owned),
                effect,
            }],
            ..NodeConstraints::default()
        };
        let (no_schedule, no_execute) = (Effect::NoSchedule, Effect::NoExecute);
        check(&NodeConstraints::default(), &[taint(no_schedule)], false);
        for (key, value, tolerated, effect, expected) in [
            ("gpu", Some("a100"), None, no_schedule, true),
            ("gpu", Some("t4"), None, no_schedule, false),
            ("gpu", None, Some(no_schedule), no_schedule, true),
            ("gpu", None, Some(no_schedule), no_execute, false),
            ("", None, None, no_execute, true),
            ("other", None, None, no_execute, false),
        ] {
            check(&tolerate(key, value, tolerated), &[taint(effect)], expected);
        }
    }
}

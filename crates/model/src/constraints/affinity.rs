//! Required node affinity: requirements on the labels and the name of a node.

use crate::Labels;

/// Requirements, all of which must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeTerm {
    /// Requirements on labels (`matchExpressions`).
    pub labels: Vec<NodeRequirement>,
    /// Requirements on fields (`matchFields`), of which only `metadata.name` exists.
    pub fields: Vec<NodeRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeRequirement {
    pub key: String,
    pub operator: NodeOperator,
    pub values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeOperator {
    In,
    /// The label is missing or has none of the values.
    NotIn,
    Exists,
    DoesNotExist,
    /// The label is an integer above the value.
    GreaterThan,
    /// The label is an integer below the value.
    LessThan,
}

impl NodeTerm {
    /// Whether all requirements match; a term without requirements matches no node.
    pub(super) fn holds(&self, name: &str, labels: &Labels) -> bool {
        let field = |key: &str| (key == "metadata.name").then_some(name);
        !(self.labels.is_empty() && self.fields.is_empty())
            && self
                .labels
                .iter()
                .all(|requirement| requirement.holds(labels.get(&requirement.key)))
            && self
                .fields
                .iter()
                .all(|requirement| requirement.holds(field(&requirement.key)))
    }
}

impl NodeRequirement {
    fn holds(&self, found: Option<&str>) -> bool {
        let is_listed = |found: &str| self.values.iter().any(|value| value == found);
        match self.operator {
            NodeOperator::In => found.is_some_and(is_listed),
            NodeOperator::NotIn => !found.is_some_and(is_listed),
            NodeOperator::Exists => found.is_some(),
            NodeOperator::DoesNotExist => found.is_none(),
            NodeOperator::GreaterThan => self
                .numbers(found)
                .is_some_and(|(found, value)| found > value),
            NodeOperator::LessThan => self
                .numbers(found)
                .is_some_and(|(found, value)| found < value),
        }
    }

    fn numbers(&self, found: Option<&str>) -> Option<(i64, i64)> {
        Some((found?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

//! Required node affinity: conditions on the labels and the name of a node.

use crate::Labels;

/// Conditions of which all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeTerm {
    /// On labels (`matchExpressions`).
    pub labels: Vec<NodeRequirement>,
    /// On fields (`matchFields`), of which there is one: `metadata.name`.
    pub fields: Vec<NodeRequirement>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeRequirement {
    /// The label or field.
    pub key: String,
    /// How it is compared.
    pub operator: NodeOperator,
    /// With what.
    pub values: Vec<String>,
}

/// How a label of a node is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeOperator {
    /// It has one of the values.
    In,
    /// It is missing, or has none of the values.
    NotIn,
    /// It is there.
    Exists,
    /// It is missing.
    DoesNotExist,
    /// It is a whole number above the value.
    GreaterThan,
    /// It is a whole number below the value.
    LessThan,
}

impl NodeTerm {
    /// Whether all conditions hold; a term without conditions holds for no node.
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

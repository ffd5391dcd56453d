//! Label selector (`metav1.LabelSelector`) with a schema that rejects invalid selectors.

use std::collections::BTreeMap;

use model::{ParseSelectorError, Selector};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Label selector. All requirements must be met; without requirements it selects everything.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    /// Required labels and their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,

    /// Further requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub match_expressions: Vec<LabelRequirement>,
}

/// Requirement on one label.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
        "message": "values are required when operator is In or NotIn and forbidden otherwise",
    },
]))]
pub struct LabelRequirement {
    /// Key of the label.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// Relation of the label to the values.
    pub operator: LabelOperator,
    /// Values for In and NotIn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub values: Vec<String>,
}

/// Relation of a label to values.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabelOperator {
    /// The label has one of the values.
    In,
    /// The label is missing or has none of the values.
    NotIn,
    /// The label exists.
    Exists,
    /// The label is missing.
    DoesNotExist,
}

impl LabelOperator {
    fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
        }
    }
}

impl TryFrom<&LabelSelector> for Selector {
    type Error = ParseSelectorError;

    fn try_from(selector: &LabelSelector) -> Result<Self, ParseSelectorError> {
        let expressions = selector.match_expressions.iter().cloned();
        Self::from_parts(
            &selector.match_labels,
            expressions.map(|expression| {
                (
                    expression.key,
                    expression.operator.as_str().to_owned(),
                    expression.values,
                )
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(selector: Value, expected: Option<&str>) {
        let selector: LabelSelector = serde_json::from_value(selector).expect("a selector's shape");
        let read = Selector::try_from(&selector)
            .ok()
            .map(|selector| selector.to_string());
        assert_eq!(read.as_deref(), expected, "{selector:?}");
    }

    #[test]
    fn labels_and_expressions_must_all_hold() {
        let expression = |operator: &str, values: &[&str]| json!({"key": "b", "operator": operator, "values": values});
        let with = |expression: Value| json!({"matchLabels": {"a": "1"}, "matchExpressions": [expression]});
        check(json!({}), Some(""));
        check(with(expression("In", &["x", "y"])), Some("a=1,b in (x,y)"));
        check(with(expression("NotIn", &["x"])), Some("a=1,b!=x"));
        check(with(expression("Exists", &[])), Some("a=1,b"));
        check(with(expression("DoesNotExist", &[])), Some("a=1,!b"));
        check(with(expression("In", &[])), None);
        check(with(expression("Exists", &["x"])), None);
    }
}

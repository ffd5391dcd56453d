//! Workloads that a policy selects: their kinds, and a label selector (`metav1.LabelSelector`) with a
//! schema that rejects invalid selectors.

use std::collections::BTreeMap;

use model::{ParseSelectorError, Selector};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::well_known::WellKnown;

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

/// Maximum number of kinds with a group.
pub const MAX_CUSTOM_KINDS: usize = 10;

/// A kind of workloads, written as `Deployment`, or with its API group as `Rollout.argoproj.io`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// One of Kubernetes' own.
    WellKnown(WellKnown),
    /// Any other kind with a scale subresource.
    Custom {
        /// Kind.
        kind: String,
        /// API group.
        group: String,
    },
}

impl WorkloadKind {
    fn parse(text: &str) -> Option<Self> {
        if let Some(known) = WellKnown::of_kind(text) {
            return Some(Self::WellKnown(known));
        }
        let (kind, group) = text.split_once('.')?;
        Some(Self::Custom {
            kind: kind.to_owned(),
            group: group.to_owned(),
        })
    }
}

impl From<WellKnown> for WorkloadKind {
    fn from(kind: WellKnown) -> Self {
        Self::WellKnown(kind)
    }
}

impl Serialize for WorkloadKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::WellKnown(known) => serializer.serialize_str(known.kind()),
            Self::Custom { kind, group } => serializer.collect_str(&format_args!("{kind}.{group}")),
        }
    }
}

impl<'de> Deserialize<'de> for WorkloadKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let kind = Self::parse(&text);
        kind.ok_or_else(|| {
            D::Error::custom(format!(
                "{text:?} is neither a known kind of workloads nor KIND.GROUP"
            ))
        })
    }
}

impl JsonSchema for WorkloadKind {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WorkloadKind".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let known = WellKnown::ALL.map(WellKnown::kind).join("|");
        let label = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?";
        let custom = format!(r"[A-Z][A-Za-z0-9]{{0,62}}(\.{label})+");
        json_schema!({
            "description": "A kind of Kubernetes' own such as Deployment, or a kind with its API group such as Rollout.argoproj.io.",
            "type": "string",
            "maxLength": 317,
            "pattern": format!("^({known}|{custom})$"),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json, to_value};

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

    #[test]
    fn kinds_are_written_alone_or_with_their_group() {
        for (text, expected) in [
            ("Job", WorkloadKind::WellKnown(WellKnown::Job)),
            (
                "Rollout.argoproj.io",
                WorkloadKind::Custom {
                    kind: "Rollout".to_owned(),
                    group: "argoproj.io".to_owned(),
                },
            ),
        ] {
            let kind: WorkloadKind = from_value(json!(text)).expect("a kind");
            assert_eq!(kind, expected);
            assert_eq!(to_value(&kind).expect("JSON"), json!(text));
        }
        let error = from_value::<WorkloadKind>(json!("Rollout")).expect_err("an error");
        assert!(
            error.to_string().contains("\"Rollout\" is neither"),
            "{error}"
        );
    }
}

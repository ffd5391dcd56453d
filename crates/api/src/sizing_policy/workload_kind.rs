//! Kinds of workloads that a policy selects.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::well_known::WellKnown;

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
    use serde_json::{from_value, json, to_value};

    use super::*;

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

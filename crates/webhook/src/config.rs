//! The settings of `--config`. Those of the registration have the names of the API.

use std::path::PathBuf;

use anyhow::ensure;
use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use runtime::OtherAutoscalers;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serving::FeedReader;

/// Maximum number of match conditions in Kubernetes.
const MAX_CONDITIONS: usize = 64;

pub const DEFAULTS: &str = include_str!("defaults.yaml");

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Labels of namespaces, in addition to the namespaces that flags exclude.
    #[serde(deserialize_with = "selector")]
    pub namespace_selector: LabelSelector,
    /// Labels of pods and VPA objects, in addition to plimsoll.dev/disable-webhook.
    #[serde(deserialize_with = "selector")]
    pub object_selector: LabelSelector,
    #[serde(deserialize_with = "conditions")]
    pub match_conditions: Vec<MatchCondition>,
    /// Whether objects are reviewed again after changes of later webhooks.
    pub reinvocation_policy: ReinvocationPolicy,
    /// `ClusterRole` that owns the `MutatingWebhookConfiguration`, which is deleted with it. Empty
    /// means none.
    pub owner_cluster_role: String,
    /// Whether nodes are watched, and new pods of a `DaemonSet` get a label, for VPA objects with the
    /// annotation plimsoll.dev/node-group. Upstream does not.
    pub node_groups: bool,
    /// CAs (PEM) of the API server's client certificate. With them, connections without a certificate
    /// of one of them are refused. The API server presents one if its `AdmissionConfiguration` has a
    /// kubeconfig for webhooks.
    pub api_server_client_ca_file: Option<PathBuf>,
    pub other_autoscalers: OtherAutoscalers,
    pub feed: FeedReader,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ReinvocationPolicy {
    Never,
    IfNeeded,
}

/// Deserializes a field that passes `check`. Unknown fields in it are refused: a selector without the
/// misspelled field would select everything.
fn checked<'de, D: Deserializer<'de>, T>(
    value: D,
    check: impl FnOnce(&T) -> anyhow::Result<()>,
) -> Result<T, D::Error>
where
    T: DeserializeOwned + Serialize + Default,
{
    let value = Value::deserialize(value)?;
    if value.is_null() {
        return Ok(T::default());
    }
    let parsed = T::deserialize(&value).map_err(D::Error::custom)?;
    let known = serde_json::to_value(&parsed).map_err(D::Error::custom)?;
    if known != value {
        let error = format!("of {value}, only {known} is known");
        return Err(D::Error::custom(error));
    }
    check(&parsed).map_err(D::Error::custom)?;
    Ok(parsed)
}

fn selector<'de, D: Deserializer<'de>>(value: D) -> Result<LabelSelector, D::Error> {
    checked(value, |selector: &LabelSelector| {
        for one in selector.match_expressions.iter().flatten() {
            let has_values = one.values.iter().flatten().next().is_some();
            let (key, operator) = (&one.key, one.operator.as_str());
            ensure!(!key.is_empty(), "a requirement has no key");
            match operator {
                "In" | "NotIn" => ensure!(has_values, "{key} {operator} needs values"),
                "Exists" | "DoesNotExist" => {
                    ensure!(!has_values, "{key} {operator} excludes values");
                }
                _ => {
                    anyhow::bail!("{operator:?} of {key} is not In, NotIn, Exists or DoesNotExist")
                }
            }
        }
        Ok(())
    })
}

/// Deserializes conditions. The API server compiles their expressions.
fn conditions<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<MatchCondition>, D::Error> {
    checked(value, |conditions: &Vec<MatchCondition>| {
        let count = conditions.len();
        ensure!(
            count <= MAX_CONDITIONS,
            "{count} are more than {MAX_CONDITIONS} conditions"
        );
        for (index, condition) in conditions.iter().enumerate() {
            let name = &condition.name;
            ensure!(!name.is_empty(), "a condition has no name");
            let has_expression = !condition.expression.trim().is_empty();
            ensure!(has_expression, "{name} has no expression");
            let is_first = conditions[..index].iter().all(|other| other.name != *name);
            ensure!(is_first, "{name} is there twice");
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use runtime::config_file::parse;

    use super::*;

    #[test]
    fn a_wrong_field_is_refused_with_its_name() {
        let is =
            |operator: &str| format!("{{matchExpressions: [{{key: a, operator: {operator}}}]}}");
        for (field, value, part) in [
            ("namespaceSelector", "team=a".to_owned(), "invalid type"),
            ("namespaceSelector", "[]".to_owned(), "invalid type"),
            (
                "namespaceSelector",
                "{matchLabel: {a: b}}".to_owned(),
                "known",
            ),
            ("namespaceSelector", is("In"), "needs values"),
            ("objectSelector", is("Equals"), "Equals"),
            (
                "matchConditions",
                "[{name: a, expression: ''}]".to_owned(),
                "no expression",
            ),
            (
                "matchConditions",
                "[{name: a, expression: x}, {name: a, expression: y}]".to_owned(),
                "twice",
            ),
            ("reinvocationPolicy", "Always".to_owned(), "unknown variant"),
            ("selector", "{}".to_owned(), "unknown field"),
        ] {
            let text = format!("{field}: {value}");
            let error = parse::<Config>(&[DEFAULTS, text.as_str()]).expect_err(&text);
            let error = format!("{error:#}");
            assert!(error.starts_with(&format!("{field}: ")), "{error}");
            assert!(error.contains(part), "{error}");
        }
    }
}

//! The file of `--config`, in YAML: fields of the webhook in the `MutatingWebhookConfiguration`, with
//! the names of the API.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use runtime::config_file;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::registration::Selection;

/// Maximum number of match conditions in Kubernetes.
const MAX_CONDITIONS: usize = 64;

/// Additions of the file to the registration.
#[derive(Debug, Default)]
pub struct Config {
    pub selection: Selection,
    /// Whether objects are reviewed again after changes of later webhooks.
    pub is_reinvoked: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Fields {
    /// Labels of namespaces, in addition to the namespaces that flags exclude.
    namespace_selector: Value,
    /// Labels of pods and VPA objects, in addition to plimsoll.dev/disable-webhook.
    object_selector: Value,
    match_conditions: Value,
    reinvocation_policy: ReinvocationPolicy,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
enum ReinvocationPolicy {
    #[default]
    Never,
    IfNeeded,
}

impl Config {
    /// Reads a file. An empty name means no additions. Errors name the file and the field.
    pub(crate) fn read(file: &str) -> anyhow::Result<Self> {
        config_file::read(file, Self::parse)
    }

    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let fields: Fields = config_file::parse(text)?;
        let selection = Selection {
            namespace_selector: selector("namespaceSelector", &fields.namespace_selector)?,
            object_selector: selector("objectSelector", &fields.object_selector)?,
            match_conditions: conditions("matchConditions", &fields.match_conditions)?,
        };
        Ok(Self {
            selection,
            is_reinvoked: fields.reinvocation_policy == ReinvocationPolicy::IfNeeded,
        })
    }
}

/// Parses a field. Unknown fields in it are refused: a selector without the misspelled field would
/// select everything.
fn parse_exactly<T>(field: &str, value: &Value) -> anyhow::Result<T>
where
    T: DeserializeOwned + Serialize + Default,
{
    if value.is_null() {
        return Ok(T::default());
    }
    let parsed = T::deserialize(value).with_context(|| field.to_owned())?;
    let known = serde_json::to_value(&parsed)?;
    ensure!(
        known == *value,
        "{field}: of {value}, only {known} is known"
    );
    Ok(parsed)
}

/// Parses a selector and checks its operators.
fn selector(field: &str, value: &Value) -> anyhow::Result<LabelSelector> {
    let selector: LabelSelector = parse_exactly(field, value)?;
    for one in selector.match_expressions.iter().flatten() {
        let has_values = one.values.iter().flatten().next().is_some();
        let key = &one.key;
        ensure!(!key.is_empty(), "{field}: a requirement has no key");
        match one.operator.as_str() {
            "In" | "NotIn" => ensure!(has_values, "{field}: {key} {} needs values", one.operator),
            "Exists" | "DoesNotExist" => ensure!(
                !has_values,
                "{field}: {key} {} excludes values",
                one.operator
            ),
            other => anyhow::bail!(
                "{field}: {other:?} of {key} is not In, NotIn, Exists or DoesNotExist"
            ),
        }
    }
    Ok(selector)
}

/// Parses conditions and checks their names and number. The API server compiles their expressions.
fn conditions(field: &str, value: &Value) -> anyhow::Result<Vec<MatchCondition>> {
    let conditions: Vec<MatchCondition> = parse_exactly(field, value)?;
    ensure!(
        conditions.len() <= MAX_CONDITIONS,
        "{field}: {} are more than {MAX_CONDITIONS} conditions",
        conditions.len()
    );
    for (index, condition) in conditions.iter().enumerate() {
        let name = &condition.name;
        ensure!(!name.is_empty(), "{field}: a condition has no name");
        ensure!(
            !condition.expression.trim().is_empty(),
            "{field}: {name} has no expression"
        );
        let is_first = conditions[..index].iter().all(|other| other.name != *name);
        ensure!(is_first, "{field}: {name} is there twice");
    }
    Ok(conditions)
}

#[cfg(test)]
mod tests {
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
            let error = format!("{:#}", Config::parse(&text).expect_err(&text));
            assert!(error.starts_with(&format!("{field}: ")), "{error}");
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn an_empty_file_adds_nothing() {
        for config in [Config::read(""), Config::parse("{}"), Config::parse("")] {
            let config = config.expect("no additions");
            assert_eq!(config.selection, Selection::default());
            assert!(!config.is_reinvoked);
        }
    }
}

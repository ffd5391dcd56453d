//! Fields of a prometheus-adapter rule file, interpreted in `rule.rs`.
//!
//! Source: prometheus-adapter `pkg/config/config.go` and `docs/config.md`. As there, unknown fields
//! are errors, null means absent, `<<` merges, and `no` is false, as in YAML 1.1.

use std::collections::BTreeMap;

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::deserialize;
use serde_yaml_ng::Value;

const MAX_BYTES: usize = 4 << 20;

/// Error in a rule file, with the field and the index of its rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {why}")]
pub struct RuleError {
    /// Path, such as `externalRules[2].name.matches`.
    pub at: String,
    pub why: String,
}

impl RuleError {
    pub(super) fn new(at: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            at: at.into(),
            why: why.into(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct File {
    /// Rules of `custom.metrics.k8s.io`.
    pub(super) rules: Option<Vec<RuleText>>,
    /// Rules of `external.metrics.k8s.io`.
    pub(super) external_rules: Option<Vec<RuleText>>,
    /// Rules of `metrics.k8s.io`, which is not served here.
    pub(super) resource_rules: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct RuleText {
    #[serde(deserialize_with = "or_default")]
    pub(super) series_query: String,
    /// Filters on their names.
    pub(super) series_filters: Option<Vec<FilterText>>,
    /// Labels of objects.
    #[serde(deserialize_with = "or_default")]
    pub(super) resources: ResourcesText,
    #[serde(deserialize_with = "or_default")]
    pub(super) name: NameText,
    #[serde(deserialize_with = "or_default")]
    pub(super) metrics_query: String,
}

/// Filter on the name of a series; one of the two is set.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct FilterText {
    #[serde(deserialize_with = "or_default")]
    pub(super) is: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) is_not: String,
}

/// Labels of objects.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct ResourcesText {
    /// Template of the label for any resource.
    #[serde(deserialize_with = "or_default")]
    pub(super) template: String,
    /// Resources by the names of their labels.
    pub(super) overrides: Option<BTreeMap<String, ResourceText>>,
    /// Whether external metrics are restricted to the requesting namespace; true if unset.
    #[serde(deserialize_with = "truth")]
    pub(super) namespaced: Option<bool>,
}

/// Resource, in singular or plural.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ResourceText {
    #[serde(deserialize_with = "or_default")]
    pub(super) group: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) resource: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NameText {
    /// Regular expression for the name of the series.
    #[serde(deserialize_with = "or_default")]
    pub(super) matches: String,
    /// Replacement, which is the name of the metric.
    #[serde(rename = "as", deserialize_with = "or_default")]
    pub(super) becomes: String,
}

pub(super) fn parse(text: &str) -> Result<File, RuleError> {
    if text.len() > MAX_BYTES {
        return Err(RuleError::new(
            "the rule file",
            format!("it is longer than {MAX_BYTES} bytes"),
        ));
    }
    if text.trim().is_empty() {
        return Ok(File::default());
    }
    let file =
        deserialize(serde_yaml_ng::Deserializer::from_str(text)).map_err(|error| placed(&error));
    match merged(text) {
        // Only if needed: merged text has no line numbers for errors.
        Some(merged) if file.is_err() => deserialize(merged).map_err(|error| placed(&error)),
        _ => file,
    }
}

/// The file with `<<` merged, if present.
fn merged(text: &str) -> Option<Value> {
    let is_merging = text
        .lines()
        .any(|line| line.trim_start_matches([' ', '-', '{']).starts_with("<<:"));
    let mut value: Value = is_merging.then(|| serde_yaml_ng::from_str(text).ok())??;
    value.apply_merge().ok().map(|()| value)
}

fn placed(error: &serde_path_to_error::Error<serde_yaml_ng::Error>) -> RuleError {
    let at = error.path().to_string();
    let at = if at == "." {
        "the rule file".to_owned()
    } else {
        at
    };
    // The texts of serde_yaml_ng start with a path as well.
    let why = error.inner().to_string();
    let why = why
        .split_once(": ")
        .filter(|(path, _)| at.starts_with(path))
        .map_or(why.as_str(), |(_, why)| why);
    RuleError::new(at.clone(), why)
}

fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A boolean of YAML 1.1.
fn truth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    let known = |value: Value| match value.as_str() {
        Some("y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON") => Ok(true),
        Some("n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF") => Ok(false),
        _ => bool::deserialize(value).map_err(D::Error::custom),
    };
    let value = Option::<Value>::deserialize(deserializer)?;
    value.map(known).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(parse(text).expect_err(text).to_string(), expected, "{text}");
    }

    #[test]
    fn every_field_is_read() {
        let file = parse(
            "rules:
             - seriesQuery: up
               seriesFilters: [{is: a}, {isNot: b}]
               resources: {template: t, overrides: {pod: {resource: pod}, app: {group: apps, resource: deployment}}}
               name: {matches: m, as: n}
               metricsQuery: q
             externalRules:
             - {seriesQuery: up, metricsQuery: q, resources: {namespaced: false}}
             resourceRules: {cpu: {containerQuery: anything}, window: 5m}"
                .replace("\n             ", "\n")
                .as_str(),
        )
        .expect("a file");
        assert!(file.resource_rules.is_some());
        let [rule] = &file.rules.expect("rules")[..] else {
            panic!("one rule")
        };
        let [external] = &file.external_rules.expect("rules")[..] else {
            panic!("one external rule")
        };
        assert_eq!([&rule.series_query, &rule.metrics_query], ["up", "q"]);
        let filters = rule.series_filters.as_deref().expect("filters");
        assert_eq!([&filters[0].is, &filters[1].is_not], ["a", "b"]);
        assert_eq!([&rule.name.matches, &rule.name.becomes], ["m", "n"]);
        assert_eq!(rule.resources.template, "t");
        let app = &rule.resources.overrides.as_ref().expect("overrides")["app"];
        assert_eq!([&app.group, &app.resource], ["apps", "deployment"]);
        assert_eq!(rule.resources.namespaced, None);
        assert_eq!(external.resources.namespaced, Some(false));
    }

    #[test]
    fn an_empty_file_has_no_rules() {
        for text in ["", "  \n", "rules:\nexternalRules: []\n", "{}"] {
            let File {
                rules,
                external_rules,
                resource_rules,
            } = parse(text).expect(text);
            let is_empty =
                |rules: Option<Vec<RuleText>>| rules.is_none_or(|rules| rules.is_empty());
            assert!(is_empty(rules) && is_empty(external_rules), "{text}");
            assert!(resource_rules.is_none(), "{text}");
        }
    }

    #[test]
    fn what_yaml_means_is_what_go_takes_it_for() {
        let file = parse(
            "rules:\n- seriesQuery: up\n  seriesFilters:\n  name: ~\n  metricsQuery: 17\n  resources: {template: null}\n",
        );
        let rule = &file.expect("nulls").rules.expect("rules")[0];
        assert_eq!([&rule.metrics_query, &rule.resources.template], ["17", ""]);
        assert_eq!([&rule.name.matches, &rule.name.becomes], ["", ""]);
        for (word, expected) in [
            ("no", Some(false)),
            ("On", Some(true)),
            ("false", Some(false)),
            ("~", None),
        ] {
            let text = format!("externalRules:\n- resources: {{namespaced: {word}}}\n");
            let rules = parse(&text).expect(word).external_rules.expect("rules");
            assert_eq!(rules[0].resources.namespaced, expected, "{word}");
        }
        let rules = "rules:\n- &first\n  seriesQuery: up\n  metricsQuery: q\n- <<: *first\n  seriesQuery: down\n";
        let file = parse(rules).expect("what is merged").rules.expect("rules");
        let queries: Vec<_> = file
            .iter()
            .map(|rule| (rule.series_query.as_str(), rule.metrics_query.as_str()))
            .collect();
        assert_eq!(queries, [("up", "q"), ("down", "q")]);
        check(
            &format!("{rules}  nothing: x\n"),
            "rules[1].nothing: unknown field `nothing`, expected one of `seriesQuery`, `seriesFilters`, `resources`, `name`, `metricsQuery`",
        );
    }

    #[test]
    fn errors_name_the_rule_and_the_field() {
        check(
            "rules:\n- seriesQuery: up\n- metricQuery: q\n",
            "rules[1].metricQuery: unknown field `metricQuery`, expected one of `seriesQuery`, `seriesFilters`, `resources`, `name`, `metricsQuery` at line 3 column 3",
        );
        let list = "rules:\n- seriesFilters:\n  - is: [1]\n";
        let word = "externalRules:\n- resources: {namespaced: maybe}\n";
        for (text, expected) in [
            (list, "rules[0].seriesFilters[0].is: invalid type: sequence"),
            (word, "externalRules[0].resources.namespaced: invalid type"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        check(
            "rules: [",
            "rules: did not find expected node content at line 2 column 1, while parsing a flow node",
        );
        check(
            "- a",
            "the rule file: invalid type: sequence, expected struct File",
        );
    }
}

//! The rule file.

use std::path::Path;

use anyhow::{Context as _, Result};
use e2e::repository;
use serde_json::Value;

pub(crate) const RULE_FILE: &str = "deploy/alerts/plimsoll.yaml";

pub(crate) struct Rule {
    pub(crate) alert: String,
    pub(crate) expression: String,
    pub(crate) severity: String,
    pub(crate) annotations: Value,
}

pub(crate) fn parse(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_yaml_ng::from_str(&text).with_context(|| path.display().to_string())
}

pub(crate) fn rules() -> Result<Vec<Rule>> {
    let file = parse(&repository().join(RULE_FILE))?;
    let groups = file["groups"].as_array().context("groups")?;
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().into_iter().flatten());
    rules
        .map(|rule| {
            Ok(Rule {
                expression: rule["expr"].as_str().context("an expression")?.to_owned(),
                alert: rule["alert"].as_str().context("an alert")?.to_owned(),
                severity: rule["labels"]["severity"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                annotations: rule["annotations"].clone(),
            })
        })
        .collect()
}

impl Rule {
    /// The metrics in the expression, except those that it selects by a pattern of names.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = &str> {
        let outside_quotes = self.expression.split('"').step_by(2);
        let is_separator = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
        let words = outside_quotes.flat_map(move |text| text.split(is_separator));
        let prefixes = ["vpa_", "plimsoll_", "kube_", "leader_election_"];
        words.filter(move |word| prefixes.iter().any(|prefix| word.starts_with(prefix)))
    }
}

//! Roles and bindings of `deploy/`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde::Deserialize as _;
use serde_json::Value;

const READS: [&str; 3] = ["get", "list", "watch"];

pub(super) fn base() -> PathBuf {
    e2e::repository().join("deploy/base")
}

pub(super) fn rules(program: &str) -> Result<Vec<PolicyRule>> {
    rules_in(&format!("{program}/rbac.yaml"))
}

pub(super) fn rules_in(file: &str) -> Result<Vec<PolicyRule>> {
    rules_of(&objects_in(&base().join(file))?)
}

pub(crate) fn objects_in(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_yaml_ng::Deserializer::from_str(&text)
        .map(|document| Ok(Value::deserialize(document)?))
        .collect()
}

pub(crate) fn rules_of(objects: &[Value]) -> Result<Vec<PolicyRule>> {
    let mut rules = Vec::new();
    for object in objects {
        if object["kind"] == "ClusterRole" || object["kind"] == "Role" {
            let own: Option<Vec<PolicyRule>> = serde_json::from_value(object["rules"].clone())?;
            rules.extend(own.into_iter().flatten());
        }
    }
    Ok(rules)
}

/// Role and subjects of a binding.
pub(super) fn binding(object: &Value) -> Option<String> {
    if !object["kind"].as_str()?.ends_with("RoleBinding") {
        return None;
    }
    let subjects = object["subjects"].as_array()?.iter();
    let subjects: Vec<String> = subjects
        .filter_map(|subject| {
            Some(format!(
                "{}/{}",
                subject["namespace"].as_str()?,
                subject["name"].as_str()?
            ))
        })
        .collect();
    Some(format!(
        "{}: {}",
        object["roleRef"]["name"].as_str()?,
        subjects.join(" ")
    ))
}

/// Every right, as `verb group/resource`.
pub(super) fn rights(rules: &[PolicyRule]) -> BTreeSet<String> {
    let mut rights = BTreeSet::new();
    for rule in rules {
        for verb in &rule.verbs {
            for group in rule.api_groups.iter().flatten() {
                rights.extend(
                    rule.resources
                        .iter()
                        .flatten()
                        .map(|resource| format!("{verb} {group}/{resource}")),
                );
            }
        }
    }
    rights
}

pub(super) fn writes(rules: &[PolicyRule]) -> BTreeSet<String> {
    let reads = |right: &String| {
        READS
            .iter()
            .any(|verb| right.starts_with(&format!("{verb} ")))
    };
    rights(rules)
        .into_iter()
        .filter(|right| !reads(right))
        .collect()
}

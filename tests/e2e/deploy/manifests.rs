//! Roles and bindings of `deploy/`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use e2e::manifests::{objects_in, rights_of, rules_of};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

pub(super) fn base() -> PathBuf {
    e2e::repository().join("deploy/base")
}

pub(super) fn rules(program: &str) -> Result<Vec<PolicyRule>> {
    rules_in(&format!("{program}/rbac.yaml"))
}

pub(super) fn rules_in(file: &str) -> Result<Vec<PolicyRule>> {
    rules_of(&objects_in(&base().join(file))?)
}

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

/// Every right, as `verb group/resource [name]`.
pub(super) fn rights(rules: &[PolicyRule]) -> BTreeSet<String> {
    rights_of(rules).iter().map(ToString::to_string).collect()
}

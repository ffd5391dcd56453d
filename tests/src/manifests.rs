//! Objects in the manifests of `deploy/`, and the rights that their roles grant.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde::Deserialize as _;
use serde_json::Value;

/// One verb on one resource, or on one object of it; as text `verb group/resource [name]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    pub resource: String,
    /// The name of the object, if the rule has names.
    pub name: Option<String>,
}

impl fmt::Display for Right {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verb,
            group,
            resource,
            name,
        } = self;
        write!(formatter, "{verb} {group}/{resource}")?;
        match name {
            Some(name) => write!(formatter, " [{name}]"),
            None => Ok(()),
        }
    }
}

pub fn objects_in(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_yaml_ng::Deserializer::from_str(&text)
        .map(|document| Ok(Value::deserialize(document)?))
        .collect()
}

pub fn rules_of(objects: &[Value]) -> Result<Vec<PolicyRule>> {
    let mut rules = Vec::new();
    for object in objects {
        if object["kind"] == "ClusterRole" || object["kind"] == "Role" {
            let own: Option<Vec<PolicyRule>> = serde_json::from_value(object["rules"].clone())?;
            rules.extend(own.into_iter().flatten());
        }
    }
    Ok(rules)
}

pub fn rights_of(rules: &[PolicyRule]) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for rule in rules {
        let names: Vec<Option<String>> = match &rule.resource_names {
            Some(names) if !names.is_empty() => names.iter().cloned().map(Some).collect(),
            _ => vec![None],
        };
        for verb in &rule.verbs {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    rights.extend(names.iter().map(|name| Right {
                        verb: verb.clone(),
                        group: group.clone(),
                        resource: resource.clone(),
                        name: name.clone(),
                    }));
                }
            }
        }
    }
    rights
}

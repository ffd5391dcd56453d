//! Rights that the manifests of `deploy/` grant to the programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use e2e::manifests::{Right, objects_in, rights_of, rules_of};
use e2e::repository;
use serde_json::Value;

/// Kind and name of a role.
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Role {
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// A right that a program has by a role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Grant {
    /// `NAMESPACE:NAME` of the program's `ServiceAccount`.
    pub(crate) account: String,
    pub(crate) role: Role,
    pub(crate) right: Right,
}

impl Grant {
    /// Program, role and right.
    pub(crate) fn text(&self) -> String {
        format!("{}: {}: {}", program(&self.account), self.role, self.right)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind, self.name)
    }
}

pub(crate) fn program(account: &str) -> &str {
    account
        .strip_prefix("plimsoll-system:plimsoll-")
        .unwrap_or(account)
}

/// All grants to programs. A role that a component patches counts with and without the patch.
pub(crate) fn grants() -> Result<BTreeSet<Grant>> {
    let mut roles: BTreeMap<Role, Vec<Value>> = BTreeMap::new();
    let mut bindings = Vec::new();
    let files = files()?;
    let (kustomizations, manifests): (Vec<_>, Vec<_>) = files
        .iter()
        .partition(|file| file.ends_with("kustomization.yaml"));
    for file in manifests {
        for object in objects_in(file)? {
            match object["kind"].as_str().unwrap_or_default() {
                kind @ ("ClusterRole" | "Role") => {
                    let role = Role {
                        kind: kind.to_owned(),
                        name: text(&object["metadata"]["name"])?,
                    };
                    ensure!(!roles.contains_key(&role), "there are two of {role}");
                    roles.insert(role, vec![object]);
                }
                "ClusterRoleBinding" | "RoleBinding" => bindings.push(object),
                _ => {}
            }
        }
    }
    for file in kustomizations {
        for kustomization in objects_in(file)? {
            patch(&kustomization, &mut roles)?;
        }
    }
    let mut grants = BTreeSet::new();
    for binding in bindings {
        let role = Role {
            kind: text(&binding["roleRef"]["kind"])?,
            name: text(&binding["roleRef"]["name"])?,
        };
        // The API server has roles of its own.
        let variants = roles.get(&role).map(Vec::as_slice).unwrap_or_default();
        let rights = rights_of(&rules_of(variants)?);
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let account = format!(
                "{}:{}",
                text(&subject["namespace"])?,
                text(&subject["name"])?
            );
            grants.extend(rights.iter().map(|right| Grant {
                account: account.clone(),
                role: role.clone(),
                right: right.clone(),
            }));
        }
    }
    Ok(grants)
}

/// Adds the roles as a kustomization patches them.
fn patch(kustomization: &Value, roles: &mut BTreeMap<Role, Vec<Value>>) -> Result<()> {
    for patch in kustomization["patches"].as_array().into_iter().flatten() {
        let target = &patch["target"];
        if !matches!(target["kind"].as_str(), Some("ClusterRole" | "Role")) {
            continue;
        }
        let role = Role {
            kind: text(&target["kind"])?,
            name: text(&target["name"])?,
        };
        let variants = roles.get_mut(&role);
        let variants = variants.with_context(|| format!("there is no {role} to patch"))?;
        let mut object = variants[0].clone();
        let operations: json_patch::Patch = serde_yaml_ng::from_str(&text(&patch["patch"])?)?;
        json_patch::patch(&mut object, &operations)?;
        variants.push(object);
    }
    Ok(())
}

fn files() -> Result<Vec<PathBuf>> {
    let deploy = repository().join("deploy");
    let mut open = vec![deploy.join("base"), deploy.join("components")];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|it| it == "yaml") {
                files.push(path);
            }
        }
    }
    Ok(files)
}

fn text(value: &Value) -> Result<String> {
    let text = value
        .as_str()
        .with_context(|| format!("no text: {value}"))?;
    Ok(text.to_owned())
}

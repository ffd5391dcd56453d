//! Cargo's metadata about our crates and their dependencies.

use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use crate::repository::root;

#[derive(Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
    workspace_members: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) targets: Vec<Target>,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) publish: Option<Vec<String>>,
}

#[derive(Deserialize)]
pub(crate) struct Target {
    pub(crate) src_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

impl Dependency {
    /// Whether it is a normal dependency: neither a dev- nor a build-dependency.
    fn is_normal(&self) -> bool {
        self.dep_kinds.iter().any(|kind| kind.kind.is_none())
    }
}

impl Metadata {
    pub(crate) fn load() -> Self {
        let output = cargo(&[
            "metadata",
            "--format-version=1",
            "--filter-platform=host-tuple",
        ]);
        serde_json::from_slice(&output).expect("cargo metadata prints its documented JSON")
    }

    pub(crate) fn packages(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter()
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    fn package(&self, id: &str) -> &Package {
        self.packages
            .iter()
            .find(|package| package.id == id)
            .expect("a resolved id is a package")
    }

    pub(crate) fn normal_dependencies(&self, id: &str) -> impl Iterator<Item = &Package> {
        let node = self
            .resolve
            .nodes
            .iter()
            .find(|node| node.id == id)
            .expect("a package id is a node");
        node.deps
            .iter()
            .filter(|dependency| dependency.is_normal())
            .map(|dependency| self.package(&dependency.pkg))
    }
}

/// The standard output of a cargo command that respects `Cargo.lock`.
///
/// Without `--offline`, and for the host's platform alone: a machine that has only built the
/// workspace has downloaded no packages of other platforms.
pub(crate) fn cargo(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .arg("--locked")
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

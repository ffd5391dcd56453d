//! Which crate may depend on which, that the pure crates stay pure, and what no crate depends on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::metadata::{Metadata, cargo};
use crate::repository::root;

/// Crate, then the crates of ours that it may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("sizing", &["model"]),
    ("forecast", &["model"]),
    ("scaling", &["model"]),
    ("api", &["model"]),
    ("feed", &["model"]),
    ("view", &["model", "api"]),
    ("sources", &["model", "api"]),
    ("runtime", &[]),
    (
        "recommender",
        &[
            "sizing", "forecast", "scaling", "model", "api", "feed", "view", "sources", "runtime",
        ],
    ),
    (
        "updater",
        &["sizing", "model", "api", "feed", "view", "runtime"],
    ),
    (
        "webhook",
        &["sizing", "model", "api", "feed", "view", "runtime"],
    ),
    (
        "adapter",
        &[
            "scaling", "model", "api", "feed", "view", "sources", "runtime",
        ],
    ),
    ("sandbox", &["runtime"]),
    // For tests.
    ("recordings", &[]),
    ("eventually", &[]),
    ("e2e", &["api", "sandbox", "eventually"]),
];

/// No clock, no network, no Kubernetes client in these, not even through a dependency.
pub(crate) const PURE: &[&str] = &["model", "sizing", "forecast", "scaling"];
const IMPURE_PACKAGES: &[&str] = &["tokio", "kube", "kube-client", "hyper", "axum", "tonic"];

#[test]
fn crates_depend_along_the_allowed_arrows_only() {
    let metadata = Metadata::load();
    let names: BTreeSet<&str> = metadata
        .members()
        .map(|package| package.name.as_str())
        .collect();
    for package in metadata.members() {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            panic!("crate {} has no line in ARROWS", package.name);
        };
        for dependency in metadata.normal_dependencies(&package.id) {
            let ours = names.contains(dependency.name.as_str());
            assert!(
                !ours || allowed.contains(&dependency.name.as_str()),
                "{} may not depend on {}",
                package.name,
                dependency.name
            );
        }
    }
}

#[test]
fn pure_crates_reach_no_runtime_and_no_kubernetes_client() {
    let metadata = Metadata::load();
    for package in metadata
        .members()
        .filter(|package| PURE.contains(&package.name.as_str()))
    {
        let reach = metadata.reach(package);
        for impure in IMPURE_PACKAGES {
            assert!(
                !reach.contains_key(impure),
                "{} is pure but reaches {}",
                package.name,
                reach[impure].join(" -> ")
            );
        }
    }
}

#[test]
fn no_package_brings_in_ring_or_openssl() {
    // Unlike the metadata, this leaves out packages that no enabled feature needs.
    let tree = cargo(&["tree", "--workspace", "--prefix=none", "--format={p}"]);
    let tree = String::from_utf8(tree).expect("names of packages are UTF-8");
    let brought: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(brought.contains("rustls"), "{tree}");
    for banned in ["ring", "openssl-sys", "native-tls"] {
        assert!(
            !brought.contains(banned),
            "cargo tree --workspace -i {banned} shows the dependants"
        );
    }
}

#[test]
fn folders_are_named_after_their_crates_and_nothing_is_published() {
    for package in Metadata::load().members() {
        let folder = package
            .manifest_path
            .parent()
            .expect("a manifest lies in a folder");
        let folder = folder
            .strip_prefix(root())
            .expect("a member lies in the repository");
        let expected = if package.name == "e2e" {
            PathBuf::from("tests")
        } else {
            Path::new("crates").join(&package.name)
        };
        assert_eq!(folder, expected);
        assert_eq!(package.version, "0.0.0", "{}", package.name);
        assert_eq!(
            package.publish.as_deref(),
            Some(&[][..]),
            "{} must set publish = false",
            package.name
        );
    }
}

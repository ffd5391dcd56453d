//! Allowed dependencies between crates, purity of the pure crates, and crates without dependents.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::metadata::{Metadata, cargo};
use crate::repository::root;

/// Crates, each with those of ours that it may depend on.
const ARROWS: &str = "\
model:
sizing: model
forecast: model
scaling: model
placement: model
plot:
replay: sizing scaling horizontal model
plimsoll: replay sizing forecast scaling horizontal model runtime sources metric_routes api \
    promql serving vertical view watch plot
api: model
feed: model runtime
view: model api
vertical: sizing view model api
admission: sizing view model api
rollout: placement scaling sizing view model api
watch: view model api runtime
promql: model
sources: placement promql model api runtime
runtime: model
metric_routes: model runtime serving
serving: runtime
delegated_auth: model runtime serving
# sizing for Crane's percentile predictor, which sizes containers too.
horizontal: forecast scaling sizing promql view model api
controllers: horizontal vertical model api feed view watch sources runtime
recommender: controllers vertical sizing model api feed view watch sources runtime serving
updater: rollout model placement view api feed watch sources runtime serving
webhook: admission model api feed view watch runtime serving
adapter: metric_routes scaling model api feed view watch sources runtime serving delegated_auth
extender: placement model api view watch sources runtime serving
sandbox: runtime serving
# For tests.
testing: model
e2e: api plot sandbox testing
";

/// The crates of ours that a crate may depend on; `None` if it has no line.
fn allowed(package: &str) -> Option<Vec<&'static str>> {
    let mut lines = ARROWS.lines();
    let allowed = lines.find_map(|line| line.strip_prefix(package)?.strip_prefix(':'))?;
    Some(allowed.split_whitespace().collect())
}

/// No clock, no network, no Kubernetes client in these, not even through a dependency.
pub(crate) const PURE: &[&str] = &[
    "model",
    "sizing",
    "forecast",
    "scaling",
    "placement",
    "plot",
    "replay",
    "promql",
    "view",
    "vertical",
    "admission",
    "rollout",
    "horizontal",
];
const IMPURE_PACKAGES: &[&str] = &[
    "tokio",
    "kube-client",
    "kube-runtime",
    "hyper",
    "axum",
    "tonic",
];
/// The types of Kubernetes, only in what may depend on `api`, itself or through another crate.
const OBJECT_PACKAGES: &[&str] = &["kube", "kube-core", "k8s-openapi"];

#[test]
fn crates_depend_along_the_allowed_arrows_only() {
    let metadata = Metadata::load();
    let names: BTreeSet<&str> = metadata
        .members()
        .map(|package| package.name.as_str())
        .collect();
    for package in metadata.members() {
        let Some(allowed) = allowed(&package.name) else {
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

/// The names of the packages that the arguments of `cargo tree` select, with all that they need.
///
/// Unlike the metadata, this leaves out packages that no enabled feature needs.
fn tree(arguments: &[&str]) -> BTreeSet<String> {
    let tree = cargo(&[&["tree", "--prefix=none", "--format={p}"], arguments].concat());
    let tree = String::from_utf8(tree).expect("names of packages are UTF-8");
    tree.lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn pure_crates_reach_no_runtime_and_no_kubernetes_client() {
    for package in PURE {
        let reached = tree(&["--package", package]);
        assert!(reached.contains(*package), "{reached:?}");
        let allowed = |package: &str| allowed(package).expect("a crate has a line in ARROWS");
        let through = |package: &str| allowed(package).contains(&"api");
        let has_objects = through(package) || allowed(package).into_iter().any(through);
        let objects = if has_objects { &[] } else { OBJECT_PACKAGES };
        for impure in IMPURE_PACKAGES.iter().chain(objects) {
            assert!(
                !reached.contains(*impure),
                "{package} is pure: cargo tree -p {package} -i {impure} shows the path"
            );
        }
    }
}

#[test]
fn no_package_brings_in_ring_or_openssl() {
    let brought = tree(&["--workspace"]);
    assert!(brought.contains("rustls"), "{brought:?}");
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
        assert_eq!(
            package.publish.as_deref(),
            Some(&[][..]),
            "{} must set publish = false",
            package.name
        );
    }
}

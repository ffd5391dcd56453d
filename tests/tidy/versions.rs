//! The Kubernetes versions of the tests, which several files name.

use std::path::Path;

use serde::Deserialize;

use crate::repository::read;

/// The chart's own file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chart {
    kube_version: String,
}

impl Chart {
    fn load() -> Self {
        let text = read(Path::new("deploy/chart/Chart.yaml"));
        serde_yaml_ng::from_str(&text).expect("Chart.yaml has versions")
    }
}

/// Major and minor number of the Kubernetes that a `go.mod` of the sandbox requires.
fn kubernetes_of(module: &str) -> String {
    let text = read(&Path::new("crates/sandbox").join(module).join("go.mod"));
    let words: Vec<&str> = text.split_whitespace().collect();
    let required = words
        .windows(2)
        .find(|pair| pair[0] == "k8s.io/kubernetes" && pair[1].starts_with('v'));
    let version = required.expect("Kubernetes is required")[1];
    let numbers: Vec<&str> = version.trim_start_matches('v').split('.').collect();
    numbers[..2].join(".")
}

#[test]
fn the_named_kubernetes_versions_are_those_of_the_tests() {
    let (oldest, newest) = (
        kubernetes_of("control-plane-oldest"),
        kubernetes_of("control-plane"),
    );
    assert_eq!(Chart::load().kube_version, format!(">={oldest}.0-0"));
    let both = format!("{oldest} and {newest}");
    for document in ["README.md", "docs/operations.md", "CONTRIBUTING.md"] {
        let text = read(Path::new(document));
        assert!(
            text.contains(&format!("Kubernetes {both}")),
            "{document} does not name Kubernetes {both}"
        );
    }
    let check = read(Path::new("crates/plimsoll/src/check/judge/api_server.rs"));
    let minor = oldest.trim_start_matches("1.");
    assert!(
        check.contains(&format!("OLDEST_TESTED_MINOR: u32 = {minor};")),
        "`plimsoll check` does not warn below {oldest}"
    );
}

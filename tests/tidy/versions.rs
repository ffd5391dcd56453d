//! Versions that several files name: those of a release, and the Kubernetes versions of the tests.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::metadata::Metadata;
use crate::repository::{files, read, root};

/// The chart's own file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chart {
    version: String,
    app_version: String,
    kube_version: String,
}

impl Chart {
    fn load() -> Self {
        let text = read(Path::new("deploy/chart/Chart.yaml"));
        serde_yaml_ng::from_str(&text).expect("Chart.yaml has versions")
    }
}

fn workspace_version() -> String {
    let manifest: toml::Table = read(Path::new("Cargo.toml"))
        .parse()
        .expect("Cargo.toml is TOML");
    let version = manifest["workspace"]["package"]["version"].as_str();
    version.expect("the workspace has a version").to_owned()
}

#[test]
fn a_release_has_one_version() {
    let version = workspace_version();
    for package in Metadata::load().members() {
        assert_eq!(package.version, version, "{}", package.name);
    }
    let chart = Chart::load();
    assert_eq!(chart.version, version, "version of the chart");
    assert_eq!(chart.app_version, version, "appVersion of the chart");

    let heading = format!("## {version}");
    let changelog = read(Path::new("docs/changelog.md"));
    let has_section = changelog.lines().any(|line| line.starts_with(&heading));
    assert!(has_section, "docs/changelog.md has no {heading}");

    let image = "image: ghcr.io/plimsoll/";
    let mut images = 0;
    for path in files().iter().filter(|path| path.starts_with("deploy")) {
        let Ok(text) = std::fs::read_to_string(root().join(path)) else {
            continue;
        };
        for line in text
            .lines()
            .map(str::trim)
            .filter(|it| it.starts_with(image))
        {
            images += 1;
            let tag = line.rsplit(':').next().unwrap_or_default();
            assert_eq!(tag, version, "{}: {line}", path.display());
        }
    }
    assert_eq!(
        images, 12,
        "six Deployments, and six images in the metadata of the chart"
    );
}

#[test]
fn a_tag_of_this_commit_names_the_version() {
    let output = Command::new("git")
        .args(["tag", "--points-at", "HEAD"])
        .current_dir(root())
        .output()
        .expect("git runs");
    let tags = String::from_utf8(output.stdout).expect("our tags are UTF-8");
    let is_release = |tag: &&str| {
        let number = tag.strip_prefix('v');
        number.is_some_and(|number| number.starts_with(|letter: char| letter.is_ascii_digit()))
    };
    for tag in tags.lines().filter(is_release) {
        assert_eq!(tag, format!("v{}", workspace_version()));
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

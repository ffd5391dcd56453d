//! Modes with their components, as an overlay combines them.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tempfile::TempDir;

const MODES: [&str; 4] = ["recommend", "vertical", "horizontal", "all"];

/// A kustomization of a mode with components, in a folder of its own.
pub(crate) struct Combination {
    folder: TempDir,
}

impl Combination {
    pub(crate) fn new(mode: &str, components: &[&str]) -> Result<Self> {
        let target = e2e::repository().join("target");
        fs::create_dir_all(&target)?;
        let folder = tempfile::tempdir_in(target)?;
        let components = components.iter();
        let components: Vec<String> = components
            .map(|name| format!("../../deploy/components/{name}"))
            .collect();
        let kustomization = json!({
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
            "resources": [format!("../../deploy/overlays/{mode}")], "components": components,
        });
        // JSON is YAML.
        let file = folder.path().join("kustomization.yaml");
        fs::write(file, kustomization.to_string())?;
        Ok(Self { folder })
    }

    fn path(&self) -> Result<&str> {
        let path = self.folder.path().to_str();
        path.context("the repository's path is text")
    }

    /// The objects as YAML.
    pub(crate) async fn render(&self) -> Result<String> {
        e2e::kubectl(&format!("kustomize {}", self.path()?)).await
    }

    async fn check_dry_run(&self) -> Result<()> {
        let apply = "apply --server-side --dry-run=server -k";
        let printed = e2e::kubectl(&format!("{apply} {}", self.path()?)).await?;
        let expected = "deployment.apps/plimsoll-recommender";
        ensure!(printed.contains(expected), "{printed}");
        Ok(())
    }
}

/// The components that can be added to a mode; `sharded` comes first.
fn components(mode: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(e2e::repository().join("deploy/components"))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort_by_key(|name| (name != "sharded", name.clone()));
    // Two modes have it.
    names.retain(|name| name != "horizontal" || !matches!(mode, "horizontal" | "all"));
    Ok(names)
}

#[tokio::test]
async fn each_mode_can_be_combined_with_each_component() -> Result<()> {
    for mode in MODES {
        for name in &components(mode)? {
            let what = || format!("{mode} with {name}");
            let rendered = Combination::new(mode, &[name])?.render().await;
            let rendered = rendered.with_context(what)?;
            ensure!(
                rendered.contains("name: plimsoll-recommender"),
                "{}",
                what()
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_api_server_accepts_each_mode_with_all_components() -> Result<()> {
    // A dry run makes no namespace, and refuses what would go into one that is not there.
    let sandbox = e2e::shared().await?;
    e2e::apply(sandbox, "deploy/base/namespace.yaml").await?;
    e2e::kubectl("create namespace keda").await?;
    e2e::cert_manager_definitions(sandbox).await?;
    for mode in MODES {
        let all = components(mode)?;
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        // Its placeholder has to be patched.
        let all: Vec<&str> = all
            .into_iter()
            .filter(|name| *name != "webhook-network-policy")
            .collect();
        // The first one is `sharded`.
        for components in [&[], &all[1..], &all[..]] {
            let accepted = Combination::new(mode, components)?.check_dry_run().await;
            accepted.with_context(|| format!("{mode} with {components:?}"))?;
        }
    }
    Ok(())
}

/// Definitions would be deleted with the mode, and all objects with them. A metrics API may have
/// another server.
#[tokio::test]
async fn no_mode_has_definitions_or_metrics_apis() -> Result<()> {
    for mode in MODES {
        let rendered = Combination::new(mode, &[])?.render().await?;
        for kind in ["CustomResourceDefinition", "APIService"] {
            ensure!(
                !rendered.contains(&format!("kind: {kind}\n")),
                "{mode}: {kind}"
            );
        }
    }
    Ok(())
}

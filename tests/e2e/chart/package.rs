//! The packaged chart: an archive of real files that renders as the folder does.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use e2e::deployment::SYSTEM;
use e2e::helm::{Helm, RELEASE};
use e2e::repository;

/// Values that render every template.
const EVERYTHING: [&str; 9] = [
    "mode=all",
    "extender.enabled=true",
    "recommender.shards=2",
    "recommender.sizingPolicies=true",
    "recommender.specificReplicas=true",
    "updater.rollingUpdates=true",
    "certificates.mode=certManager",
    "metrics.prometheusRule.enabled=true",
    "metrics.grafanaDashboards.enabled=true",
];

/// The archive that `helm package` makes, as the only file of a folder.
async fn package(helm: &Helm) -> Result<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let destination = folder.path().to_str().context("the path is text")?;
    helm.run(&["package", "--destination", destination]).await?;
    let mut entries = std::fs::read_dir(folder.path())?;
    let archive = entries.next().context("no archive")??.path();
    ensure!(entries.next().is_none(), "several files");
    Ok((folder, archive))
}

#[tokio::test]
async fn the_packaged_chart_renders_as_the_folder_does() -> Result<()> {
    let helm = Helm::find().await?;
    let (_folder, archive) = package(&helm).await?;
    let archive = archive.to_str().context("the path is text")?;
    for values in [&EVERYTHING[..0], &EVERYTHING[..]] {
        let of_folder = helm.template(values).await?;
        let mut arguments = vec!["template", RELEASE, archive, "--namespace", SYSTEM];
        arguments.extend(values.iter().flat_map(|value| ["--set", *value]));
        let of_archive = helm.run_without_chart(&arguments).await?;
        ensure!(of_folder.contains("kind: Deployment"), "{of_folder}");
        ensure!(of_folder == of_archive, "{values:?} render differently");
    }
    Ok(())
}

/// Archives of a repository, such as those of Flux' source-controller, leave out links.
#[test]
fn the_folder_of_the_chart_has_no_symbolic_link() -> Result<()> {
    let mut folders = vec![repository().join("deploy/chart")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let (entry, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
            ensure!(!kind.is_symlink(), "{}", entry.display());
            files += usize::from(kind.is_file());
            if kind.is_dir() {
                folders.push(entry);
            }
        }
    }
    ensure!(files > 50, "{files} files");
    Ok(())
}

#[tokio::test]
async fn the_archive_has_the_version_of_the_programs_in_its_name() -> Result<()> {
    let (_folder, archive) = package(&Helm::find().await?).await?;
    let name = archive.file_name().context("the archive has a name")?;
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(name.to_string_lossy(), format!("plimsoll-{version}.tgz"));
    Ok(())
}

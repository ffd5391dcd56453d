//! The packaged chart: an archive of real files that renders as the folder does.

use anyhow::{Result, ensure};
use e2e::helm::Helm;
use e2e::repository;

/// Values that render every template.
const EVERYTHING: [&str; 11] = [
    "mode=all",
    "extender.enabled=true",
    "dashboard.enabled=true",
    "dashboard.host=a.example.com",
    "recommender.shards=2",
    "recommender.sizingPolicies=true",
    "recommender.specificReplicas=true",
    "updater.rollingUpdates=true",
    "certificates.mode=certManager",
    "metrics.prometheusRule.enabled=true",
    "metrics.grafanaDashboards.enabled=true",
];

/// The name of the archive has the version of the programs.
#[tokio::test]
async fn the_packaged_chart_renders_as_the_folder_does() -> Result<()> {
    let folder = Helm::find().await?;
    let archive = Helm::find().await?.packaged().await?;
    for values in [&EVERYTHING[..0], &EVERYTHING[..]] {
        let of_folder = folder.template(values).await?;
        let of_archive = archive.template(values).await?;
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

//! The commands of the quick start and of the uninstallation run as they are written.

use std::env;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use e2e::{another, kubectl_in, program, repository};
use sandbox::Sandbox;
use tokio::process::Command;

/// Lines that build programs or start a sandbox, which the test has done.
const PREPARED: [&str; 5] = ["make ", "cargo ", "eval ", "export ", "sandbox "];

/// The first block of code below a heading, without the prepared lines.
fn block(page: &str, heading: &str) -> Result<String> {
    let text = std::fs::read_to_string(repository().join(page))?;
    let section = text.split(&format!("\n{heading}\n")).nth(1);
    let block = section.and_then(|section| section.split("```\n").nth(1));
    let block = block.with_context(|| format!("{page} has no code below {heading}"))?;
    let is_prepared = |line: &&str| PREPARED.iter().any(|start| line.starts_with(start));
    let lines = block.lines().filter(|line| !is_prepared(line));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Runs a script in a folder with the programs, kubectl and helm on the path.
async fn run(sandbox: &Sandbox, folder: &Path, script: &str) -> Result<()> {
    let programs = [e2e::helm().await?, program("plimsoll")?, sandbox.kubectl()];
    let folders = programs.iter().filter_map(|program| program.parent());
    let folders = folders.map(Path::to_path_buf);
    let path = env::var_os("PATH").context("a path")?;
    let path = env::join_paths(folders.chain(env::split_paths(&path)))?;
    let output = Command::new("bash")
        .args(["-euxo", "pipefail", "-c", script])
        .env("PATH", path)
        .env("KUBECONFIG", sandbox.kubeconfig())
        .env("HOME", folder)
        .current_dir(folder)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    ensure!(
        output.status.success(),
        "{script}\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quick_start_and_the_uninstallation_run_as_they_are_written() -> Result<()> {
    let (start, end) = ("docs/quick-start.md", "docs/uninstall.md");
    let sandbox = another("quick-start").await?;
    let folder = tempfile::tempdir()?;
    std::os::unix::fs::symlink(repository().join("deploy"), folder.path().join("deploy"))?;
    let object = std::fs::read_to_string(repository().join(start))?;
    let object = object
        .split("Ask for the size of one Deployment:\n\n```\n")
        .nth(1);
    let object = object
        .and_then(|rest| rest.split("```").next())
        .context("an object")?;

    // With kustomize, and out again.
    run(
        &sandbox,
        folder.path(),
        &block(start, "## Without a cluster")?,
    )
    .await?;
    run(&sandbox, folder.path(), object).await?;
    let overlay = block(end, "## Kustomize")?.replace("OVERLAY", "deploy/overlays/recommend");
    run(&sandbox, folder.path(), &overlay).await?;

    // With Helm, and out again.
    run(
        &sandbox,
        folder.path(),
        &block(start, "## 2. In a cluster, without touching pods")?,
    )
    .await?;
    run(
        &sandbox,
        folder.path(),
        &block(start, "## 3. Give pods their size")?,
    )
    .await?;
    let requests =
        "get pods -n shop -o jsonpath={.items[*].spec.containers[*].resources.requests.cpu}";
    let requests = kubectl_in(&sandbox, requests).await?;
    ensure!(
        !requests.is_empty() && !requests.split(' ').any(|it| it == "2"),
        "{requests}"
    );
    for heading in ["## Before", "## Helm", "## The rest"] {
        run(&sandbox, folder.path(), &block(end, heading)?).await?;
    }
    let left = kubectl_in(
        &sandbox,
        "get crd,mutatingwebhookconfiguration,clusterrole -o name",
    )
    .await?;
    let left: Vec<_> = left
        .lines()
        .filter(|name| name.contains("plimsoll") || name.contains("autoscal"))
        .collect();
    ensure!(left.iter().all(|name| name.contains("system:")), "{left:?}");
    sandbox.down().await
}

//! The commands of the documents that change a cluster run as they are written.

use std::env;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use e2e::{another, eventually, kubectl_in, program, repository, repository_files};
use sandbox::Sandbox;
use tokio::process::Command;

/// Lines that build programs or start a sandbox, which the test has done.
const PREPARED: [&str; 5] = ["make ", "cargo ", "eval ", "export ", "sandbox "];

const START: &str = "docs/quick-start.md";
const OPERATIONS: &str = "docs/operations.md";
const END: &str = "docs/uninstall.md";
const UPDATING: &str = "docs/updating.md";
const RECIPES: &str = "docs/recipes.md";

/// Page and heading of the blocks that run here: first with kustomize, then with Helm, each to the
/// uninstallation.
const WITH_KUSTOMIZE: [(&str, &str); 3] = [
    (START, "## Without a cluster"),
    (START, OBJECT),
    (END, "## Kustomize"),
];
const WITH_HELM: [(&str, &str); 10] = [
    (OPERATIONS, "## Installation by Helm"),
    (END, "## Helm"),
    (START, "## 2. In a cluster, without touching pods"),
    (START, "## 3. Give pods their size"),
    (RECIPES, "## Memory only"),
    (OPERATIONS, "## Upgrade"),
    (UPDATING, "## Stop switch"),
    (END, "## Before"),
    (END, "## Helm"),
    (END, "## The rest"),
];
/// The text before the object of the quick start, which follows another block.
const OBJECT: &str = "Ask for the size of one Deployment:";

/// Lines that do not run here as they are written: page, begin of the line, and reason.
const ELSEWHERE: [(&str, &str, &str); 12] = [
    (
        "docs/operations.md",
        "kubectl create namespace",
        "`chart::gitops` makes it before it renders and applies",
    ),
    (
        "docs/operations.md",
        "helm template",
        "`chart::gitops` renders and applies as this does",
    ),
    ("README.md", "helm install", "the quick start has it too"),
    (
        "deploy/chart/README.md",
        "helm install",
        "the quick start has it too",
    ),
    (
        "deploy/chart/README.md",
        "helm test",
        "`chart::release` runs it",
    ),
    (
        "docs/certificates.md",
        "helm upgrade",
        "`cert_manager` installs with these values",
    ),
    (
        "docs/certificates.md",
        "kubectl create secret",
        "the files are the reader's",
    ),
    (
        "docs/cli.md",
        "kubectl port-forward",
        "the sandbox has its Prometheus outside of the cluster",
    ),
    (
        "docs/placement.md",
        "kubectl -n plimsoll-system get secret",
        "`placement` reads this entry",
    ),
    (
        "docs/migrate-from-vpa.md",
        "kubectl scale",
        "`first_week` goes back to upstream's programs",
    ),
    ("docs/release.md", "cosign", "no image is published yet"),
    (
        END,
        "kubectl delete lease",
        "for Leases in `kube-system`, which this installation has not",
    ),
];

/// The first block of code below a heading or a sentence.
fn block(page: &str, heading: &str) -> Result<String> {
    let text = repository_files::read(Path::new(page));
    let section = text.split(&format!("\n{heading}\n")).nth(1);
    let block = section.and_then(|section| section.split("```\n").nth(1));
    let block = block.with_context(|| format!("{page} has no code below {heading}"))?;
    Ok(block.to_owned())
}

/// Runs a block in a folder with the programs, kubectl and helm on the path.
async fn run(sandbox: &Sandbox, folder: &Path, (page, heading): (&str, &str)) -> Result<()> {
    let is_prepared = |line: &&str| PREPARED.iter().any(|start| line.starts_with(start));
    let block = block(page, heading)?.replace("OVERLAY", "deploy/overlays/recommend");
    let lines: Vec<_> = block.lines().filter(|line| !is_prepared(line)).collect();
    let script = lines.join("\n");
    let programs = [
        e2e::helm::path().await?,
        program("plimsoll")?,
        sandbox.kubectl(),
    ];
    let folders = programs.iter().filter_map(|program| program.parent());
    let folders = folders.map(Path::to_path_buf);
    let path = env::var_os("PATH").context("a path")?;
    let path = env::join_paths(folders.chain(env::split_paths(&path)))?;
    let output = Command::new("bash")
        .args(["-euxo", "pipefail", "-c", &script])
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
        "{page}, {heading}:\n{script}\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_commands_run_as_they_are_written() -> Result<()> {
    let sandbox = another("documented").await?;
    let folder = tempfile::tempdir()?;
    std::os::unix::fs::symlink(repository().join("deploy"), folder.path().join("deploy"))?;
    for block in WITH_KUSTOMIZE {
        run(&sandbox, folder.path(), block).await?;
    }
    for block in WITH_HELM {
        run(&sandbox, folder.path(), block).await?;
        if block.1 == "## 3. Give pods their size" {
            check_sizes(&sandbox).await?;
        }
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

/// Waits until the pods of the quick start have a new size: a restart replaces them one by one.
async fn check_sizes(sandbox: &Sandbox) -> Result<()> {
    let requests =
        "get pods -n shop -o jsonpath={.items[*].spec.containers[*].resources.requests.cpu}";
    eventually("all pods have a new size", async || {
        let requests = kubectl_in(sandbox, requests).await?;
        let is_new = !requests.is_empty() && !requests.split(' ').any(|it| it == "2");
        ensure!(is_new, "{requests}");
        Ok(())
    })
    .await
}

#[test]
fn each_command_of_the_documents_runs_or_has_a_reason() -> Result<()> {
    let mut running = Vec::new();
    for (page, heading) in WITH_KUSTOMIZE.into_iter().chain(WITH_HELM) {
        let block = block(page, heading)?;
        running.extend(block.lines().map(|line| (page, line.to_owned())));
    }
    let mut unused: Vec<_> = ELSEWHERE.iter().collect();
    for path in repository_files::files() {
        let page = path.to_str().context("the path is text")?;
        // READMEs of crates are for developers.
        if path.extension().is_none_or(|it| it != "md") || path.starts_with("crates") {
            continue;
        }
        let text = repository_files::read(&path);
        for block in text.split("\n```").skip(1).step_by(2) {
            for line in block.lines().skip(1) {
                let command = line.split(' ').next().unwrap_or_default();
                if !["kubectl", "helm", "cosign"].contains(&command) {
                    continue;
                }
                let runs = running.iter().any(|(of, it)| *of == page && it == line);
                let elsewhere = ELSEWHERE
                    .iter()
                    .find(|(of, start, _)| *of == page && line.starts_with(start));
                ensure!(
                    runs || elsewhere.is_some(),
                    "{page}: no test runs `{line}`; add its block to WITH_HELM, or a reason to ELSEWHERE"
                );
                unused.retain(|it| Some(*it) != elsewhere);
            }
        }
    }
    ensure!(unused.is_empty(), "reasons without a line: {unused:?}");
    Ok(())
}

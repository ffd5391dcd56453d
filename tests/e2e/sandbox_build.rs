//! Builds of the control plane: once, and complete or not at all.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use e2e::{eventually, program, until};
use tokio::task::spawn_blocking;

/// `sandbox up` with a cache of its own, in which nothing is built yet.
fn up(cache: &Path) -> Result<Command> {
    let mut command = Command::new(program("sandbox")?);
    command
        .args(["up", "--name", "never"])
        .env("XDG_CACHE_HOME", cache)
        .env("XDG_STATE_HOME", cache.join("state"))
        .env_remove("PLIMSOLL_CONTROL_PLANE")
        .env_remove("KUBEBUILDER_ASSETS");
    // The compiler's own cache is not in question.
    command
        .env("GOCACHE", go_env("GOCACHE")?)
        .env("GOMODCACHE", go_env("GOMODCACHE")?);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    Ok(command)
}

fn go_env(name: &str) -> Result<String> {
    let output = Command::new("go")
        .args(["env", name])
        .output()
        .context("run `go env`")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Error of `sandbox up` with nothing but this folder in PATH.
async fn complaint(path: &Path) -> Result<String> {
    let cache = tempfile::tempdir()?;
    let mut command = up(cache.path())?;
    command.env("PATH", path);
    let output = spawn_blocking(move || command.output()).await??;
    ensure!(!output.status.success(), "it came up without Go");
    let left = built(cache.path());
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(String::from_utf8(output.stderr)?)
}

fn built(cache: &Path) -> Vec<String> {
    let entries = fs::read_dir(cache.join("plimsoll/sandbox"))
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let folders = entries.filter(|entry| entry.path().is_dir());
    folders
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

#[tokio::test]
async fn without_go_one_sentence_says_what_to_install() -> Result<()> {
    let nothing = tempfile::tempdir()?;
    let said = complaint(nothing.path()).await?;
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("install Go 1.") && said.contains("https://go.dev/dl"),
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn an_old_go_is_named_with_what_to_install() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let go = folder.path().join("go");
    fs::write(&go, "#!/bin/sh\necho go1.20.14\n")?;
    fs::set_permissions(&go, fs::Permissions::from_mode(0o755))?;
    let said = complaint(folder.path()).await?;
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("too old (go1.20.14)") && said.contains("install Go 1."),
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn a_killed_builder_leaves_no_process_and_nothing_that_would_be_used() -> Result<()> {
    let cache = tempfile::tempdir()?;
    let mut builder = up(cache.path())?.spawn().context("start `sandbox up`")?;
    eventually("Go builds", async || {
        let command_line =
            |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let building = processes_in(cache.path())?;
        ensure!(
            building
                .iter()
                .any(|pid| command_line(pid).starts_with("go\0build\0")),
            "only {building:?}"
        );
        Ok(())
    })
    .await?;
    builder.kill().context("kill the builder")?;
    builder.wait().context("wait for the builder")?;
    until(
        "Go is gone",
        async || anyhow::Ok(processes_in(cache.path())?),
        Vec::is_empty,
    )
    .await?;
    let folders = built(cache.path());
    assert!(
        folders.iter().all(|name| name.contains(".building-")),
        "{folders:?}"
    );
    Ok(())
}

/// Processes that run in a folder below this one.
fn processes_in(folder: &Path) -> Result<Vec<u32>> {
    let entries = fs::read_dir("/proc")
        .context("list the processes")?
        .filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_in = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
    };
    Ok(pids.filter(is_in).collect())
}

//! The sandbox of a test run.
//!
//! It comes up with the first test that asks for it and goes down with the process, whatever end
//! that comes to. Its name holds the process id, so that runs side by side do not meet. Its logs
//! stay until the next run.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{env, fs, process};

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::Condition as _;
use kube::{Api, Client, ResourceExt};
use sandbox::{KubernetesVersion, Module, Options, Sandbox};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::neighbours::{CERT_MANAGER, HELM, PROMETHEUS_ADAPTER, PROMTOOL, UPSTREAM_VPA};
use crate::{SERVICES, audit_logs, eventually};

/// Prefix of the sandboxes' names; the process id follows.
const NAME: &str = "e2e-";

static SANDBOX: OnceCell<Sandbox> = OnceCell::const_new();

/// The sandbox of this run. Make a client from it in each test: a client belongs to the runtime
/// that made it.
pub async fn shared() -> Result<&'static Sandbox> {
    SANDBOX
        .get_or_try_init(async || start(options(None)?).await)
        .await
}

/// One more sandbox of this run, for tests that break theirs. `purpose` goes into its name.
pub async fn another(purpose: &str) -> Result<Sandbox> {
    start(options(Some(purpose))?).await
}

pub async fn another_with_prometheus(purpose: &str) -> Result<Sandbox> {
    another_with(purpose, |options| options.prometheus = true).await
}

/// The same with other options.
pub async fn another_with(purpose: &str, change: impl FnOnce(&mut Options)) -> Result<Sandbox> {
    let mut options = options(Some(purpose))?;
    change(&mut options);
    start(options).await
}

/// The same that can host these programs beside the suite's. The folder holds links to them.
pub async fn another_hosting(
    purpose: &str,
    programs: &[PathBuf],
    change: impl FnOnce(&mut Options),
) -> Result<(Sandbox, TempDir)> {
    let hosted = hosted_programs(programs)?;
    let sandbox = another_with(purpose, |options| {
        hosted.path().clone_into(&mut options.hosted_programs);
        change(options);
    })
    .await?;
    Ok((sandbox, hosted))
}

/// Number after `1.` of the Kubernetes version of this run.
pub fn kubernetes_minor() -> Result<u32> {
    Ok(KubernetesVersion::from_environment()?.minor())
}

/// The repository's folder.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The folder of the sandbox's logs, if there is a sandbox.
pub(crate) fn logs() -> Option<PathBuf> {
    SANDBOX.get().map(Sandbox::logs_dir)
}

pub(crate) fn options(purpose: Option<&str>) -> Result<Options> {
    // One of this purpose may be going down.
    static NUMBER: AtomicUsize = AtomicUsize::new(1);
    let id = process::id();
    let name = match purpose {
        Some(purpose) => {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            format!("{NAME}{id}-{purpose}-{number}")
        }
        None => format!("{NAME}{id}"),
    };
    options_named(name)
}

/// Options of a sandbox with this name, and with the version of Kubernetes of this run.
pub fn options_named(name: String) -> Result<Options> {
    Ok(Options {
        audit_logs: audit_logs::of_this_run()?,
        kubernetes_version: KubernetesVersion::from_environment()?,
        ..Options::new(name, program("sandbox")?)
    })
}

/// The folder of a module of the sandbox: its programs in `bin`, its files in `files`. It is built unless it
/// is in the cache.
pub async fn built(module: &'static Module) -> Result<PathBuf> {
    let sandbox = program("sandbox")?;
    tokio::task::spawn_blocking(move || sandbox::ensure_built(module, &sandbox)).await?
}

pub async fn promtool() -> Result<PathBuf> {
    Ok(built(&PROMTOOL).await?.join("bin/promtool"))
}

/// A folder with links to the programs of the suite and to others, which the sandbox can host.
pub fn hosted_programs(others: &[PathBuf]) -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    for name in SERVICES.into_iter().chain(["plimsoll", "sandbox"]) {
        symlink(program(name)?, folder.path().join(name))?;
    }
    for other in others {
        let name = other.file_name().context("the name of a program")?;
        symlink(other, folder.path().join(name))?;
    }
    Ok(folder)
}

/// Starts a sandbox. Helm, promtool, upstream's VPA, cert-manager and prometheus-adapter are built before the
/// first one: the builds need all cores for minutes, in which tests would wait in vain.
pub(crate) async fn start(options: Options) -> Result<Sandbox> {
    for module in [
        &HELM,
        &PROMTOOL,
        &UPSTREAM_VPA,
        &CERT_MANAGER,
        &PROMETHEUS_ADAPTER,
    ] {
        built(module).await?;
    }
    let sandbox = Sandbox::up(options, |step| eprintln!("{step}")).await?;
    // Another run may be sweeping too.
    if let Err(error) = sweep(&sandbox).await {
        eprintln!("not all logs of earlier runs could be removed: {error:#}");
    }
    crate::apply(&sandbox, "deploy/crds").await?;
    established(&sandbox.client().await?).await?;
    Ok(sandbox)
}

/// The time for which the logs of a run stay, so that those of a failed test outlive the tests that follow.
const LOGS_KEPT_FOR: Duration = Duration::from_hours(3);

/// Removes the logs of earlier runs, whose processes are gone.
async fn sweep(sandbox: &Sandbox) -> Result<()> {
    let logs = sandbox.logs_dir();
    let folder = logs
        .ancestors()
        .nth(2)
        .context("a sandbox has a folder among others")?;
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let entry = entry?;
        let age = entry.metadata().and_then(|it| it.modified())?.elapsed();
        if age.is_ok_and(|age| age < LOGS_KEPT_FOR) {
            continue;
        }
        let name = entry.file_name().into_string().unwrap_or_default();
        // Lock files are in the same folder.
        let name = name.trim_end_matches(".lock");
        let process = name
            .strip_prefix(NAME)
            .and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists()) {
            sandbox::down(name).await?;
        }
    }
    Ok(())
}

/// A program of the workspace: built into `target/PROFILE`, where this one is too, or in a folder
/// below.
pub fn program(name: &str) -> Result<PathBuf> {
    let this = env::current_exe().context("find this program")?;
    let found = this
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join(name))
        .find(|program| program.exists());
    found.with_context(|| format!("{name} is not built: run cargo build --workspace --bins first"))
}

async fn established(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in api::crd::all() {
        is_established(&definitions, &definition.name_any()).await?;
    }
    Ok(())
}

/// Waits until objects of a definition can be made.
pub async fn is_established(definitions: &Api<CustomResourceDefinition>, name: &str) -> Result<()> {
    eventually(&format!("{name} is established"), async || {
        let definition = definitions.get(name).await?;
        let is_established = is_crd_established().matches_object(Some(&definition));
        ensure!(is_established, "{:?}", definition.status);
        Ok(())
    })
    .await
}

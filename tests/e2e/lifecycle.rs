//! Sandboxes start, stop, and leave no process behind after any failure.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{self, Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use e2e::{Signal, eventually, options_named, program, signal};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use sandbox::{Component, Options, Phase, Process, Record, Sandbox};
use tokio::task::spawn_blocking;

fn options(subject: &str) -> Result<Options> {
    Ok(Options {
        nodes: 1,
        ..options_named(name(subject))?
    })
}

/// There can be one run of these tests per process id.
fn name(subject: &str) -> String {
    format!("life-{}-{subject}", process::id())
}

async fn up(subject: &str) -> Result<Sandbox> {
    Sandbox::up(options(subject)?, |_| ()).await
}

async fn node_names(sandbox: &Sandbox) -> Result<Vec<String>> {
    let nodes = Api::<Node>::all(sandbox.client().await?)
        .list(&ListParams::default())
        .await?;
    Ok(nodes
        .items
        .into_iter()
        .filter_map(|node| node.metadata.name)
        .collect())
}

async fn all_gone(processes: &[Process]) -> Result<()> {
    eventually("all processes are gone", async || {
        let alive = processes.iter().filter(|process| process.is_alive());
        let alive: Vec<_> = alive.collect();
        ensure!(alive.is_empty(), "still there: {alive:?}");
        Ok(())
    })
    .await
}

fn processes(record: &Record) -> Vec<Process> {
    record.processes().cloned().collect()
}

/// `sandbox up --foreground`, as a process that can be killed.
fn foreground(subject: &str) -> Result<Child> {
    Command::new(program("sandbox")?)
        .args(["up", "--foreground", "--nodes", "1", "--name"])
        .arg(name(subject))
        .stderr(Stdio::piped())
        .spawn()
        .context("start `sandbox up --foreground`")
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sandboxes_live_side_by_side_and_up_and_down_can_be_said_twice() -> Result<()> {
    let (first, second) = tokio::try_join!(up("first"), up("second"))?;
    let again = up("first").await?;
    assert_eq!(
        again.record()?,
        first.record()?,
        "up of a sandbox that is up changes nothing"
    );
    assert!(!again.is_owned());
    let ports = |sandbox: &Sandbox| anyhow::Ok(sandbox.record()?.ports);
    assert_ne!(ports(&first)?.api_server, ports(&second)?.api_server);
    assert_eq!(node_names(&first).await?, ["node-0"]);
    let ended = processes(&first.record()?);
    first.down().await?;
    all_gone(&ended).await?;
    assert_eq!(
        node_names(&second).await?,
        ["node-0"],
        "one goes, the other stays"
    );
    let state = second.kubeconfig();
    second.down().await?;
    assert!(
        !state.exists(),
        "a sandbox that is down leaves nothing on disk"
    );
    assert!(
        !sandbox::down(&name("second")).await?,
        "down of a sandbox that is down does nothing"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn components_stop_start_hang_and_come_back_from_a_crash() -> Result<()> {
    let sandbox = up("parts").await?;

    sandbox.stop(Component::KubeApiserver).await?;
    assert_eq!(
        sandbox.status(Component::KubeApiserver)?.phase,
        Phase::Stopped
    );
    let error = node_names(&sandbox).await.unwrap_err().to_string();
    assert!(error.contains("client error (Connect)"), "{error}");
    sandbox.stop(Component::KubeApiserver).await?;
    sandbox.start(Component::KubeApiserver).await?;
    sandbox.start(Component::KubeApiserver).await?;
    assert_eq!(
        node_names(&sandbox).await?,
        ["node-0"],
        "the store has kept what was there"
    );

    sandbox.pause(Component::KubeScheduler).await?;
    let paused = sandbox.status(Component::KubeScheduler)?;
    assert_eq!(paused.phase, Phase::Paused);
    let process = paused.process.context("a paused scheduler has a process")?;
    // The kernel takes a moment to stop a process that runs on another core.
    let is_stopped = async |expected: bool| {
        eventually("the scheduler is suspended or resumed", async || {
            let state = process_state(process.pid)?;
            ensure!((state == 'T') == expected, "its state is {state}");
            Ok(())
        })
        .await
    };
    is_stopped(true).await?;
    sandbox.resume(Component::KubeScheduler).await?;
    is_stopped(false).await?;

    signal(process.pid, Signal::KILL)?;
    eventually("the killed scheduler is started again", async || {
        let status = sandbox.status(Component::KubeScheduler)?;
        ensure!(
            status.restarts == 1 && status.phase == Phase::Running,
            "{status:?}"
        );
        ensure!(
            status
                .last_exit
                .as_deref()
                .is_some_and(|exit| exit.contains("SIGKILL")),
            "{status:?}"
        );
        Ok(())
    })
    .await?;

    let error = sandbox.stop(Component::Prometheus).await.unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("this sandbox has no prometheus"), "{error}");
    sandbox.down().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_takes_its_sandbox_along() -> Result<()> {
    let mut owner = foreground("killed")?;
    let sandbox = eventually("the sandbox is up", async || {
        Sandbox::attach(&name("killed"))
    })
    .await?;
    let processes = processes(&sandbox.record()?);
    assert!(
        processes.len() > 6 && processes.iter().all(Process::is_alive),
        "{processes:?}"
    );
    owner.kill().context("kill the owner")?;
    owner.wait().context("wait for the owner")?;
    all_gone(&processes).await?;
    assert!(
        !sandbox.kubeconfig().exists() && sandbox.logs_dir().exists(),
        "its logs remain"
    );
    sandbox::down(&name("killed")).await?;
    assert!(!sandbox.logs_dir().exists());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_killed_half_way_up_leaves_nothing_running() -> Result<()> {
    let mut owner = foreground("early")?;
    let record = eventually("the first components run", async || {
        let record = Record::of(&name("early")).context("no record yet")?;
        ensure!(record.components.len() >= 2 && !record.ready, "{record:?}");
        Ok(record)
    })
    .await?;
    owner.kill().context("kill the owner")?;
    owner.wait().context("wait for the owner")?;
    all_gone(&[record.supervisor]).await?;
    let last = Record::of(&name("early"));
    assert!(
        last.is_none(),
        "its traces are gone, and so is what it started: {last:?}"
    );
    all_gone(
        &record
            .components
            .into_values()
            .filter_map(|status| status.process)
            .collect::<Vec<_>>(),
    )
    .await?;
    sandbox::down(&name("early")).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_supervisor_takes_everything_along_and_the_next_up_clears_the_ground() -> Result<()>
{
    let first = up("orphan").await?;
    let processes = processes(&first.record()?);
    signal(first.record()?.supervisor.pid, Signal::KILL)?;
    all_gone(&processes).await?;
    // A dead sandbox is not taken for a living one.
    let error = Sandbox::attach(&name("orphan")).map(drop).unwrap_err();
    assert!(error.to_string().contains("is up; `sandbox up"), "{error}");
    let second = up("orphan").await?;
    assert_eq!(node_names(&second).await?, ["node-0"]);
    second.down().await
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_takes_a_foreground_sandbox_down_before_it_returns() -> Result<()> {
    let mut owner = foreground("interrupted")?;
    let mut said = BufReader::new(owner.stderr.take().context("no pipe")?)
        .lines()
        .map_while(Result::ok);
    let (mut owner, was_up) =
        spawn_blocking(move || (owner, said.any(|line| line.contains("is up")))).await?;
    assert!(was_up);
    let sandbox = Sandbox::attach(&name("interrupted"))?;
    let processes = processes(&sandbox.record()?);
    signal(owner.id(), Signal::INT)?;
    let status = spawn_blocking(move || owner.wait())
        .await?
        .context("wait for the owner")?;
    assert!(status.success(), "{status}");
    assert!(
        processes.iter().all(|process| !process.is_alive()),
        "{processes:?}"
    );
    assert!(!sandbox.logs_dir().exists());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_does_not_start_is_named_with_its_log_and_nothing_stays() -> Result<()> {
    let cache = tempfile::tempdir().context("make a folder")?;
    another_etcd(e2e::shared().await?, cache.path(), "exit 1")?;
    let (success, said) = up_with(cache.path(), "broken").await?;
    assert!(!success, "{said}");
    assert!(
        said.contains("etcd ended by itself") && said.contains("/logs"),
        "{said}"
    );
    assert!(Record::of(&name("broken")).is_none());
    sandbox::down(&name("broken")).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_another_program_took_is_not_the_end() -> Result<()> {
    let cache = tempfile::tempdir().context("make a folder")?;
    let built = e2e::shared().await?;
    // The first start fails as one on a taken port does.
    let first = cache.path().join("first");
    let (first, etcd) = (first.display(), built.programs().join("etcd"));
    let script = format!(
        "test -e {first} && exec {} \"$@\"\ntouch {first}\necho 'listen tcp 127.0.0.1:1: bind: address already in use'\nexit 1",
        etcd.display()
    );
    another_etcd(built, cache.path(), &script)?;
    let (success, said) = up_with(cache.path(), "taken").await?;
    assert!(success && said.contains("a port was taken"), "{said}");
    let sandbox = Sandbox::attach(&name("taken"))?;
    assert_eq!(
        node_names(&sandbox).await?,
        ["node-0"],
        "it lives on without the process that brought it up"
    );
    sandbox.down().await
}

/// Success and messages of `sandbox up` with this cache folder.
async fn up_with(cache: &Path, subject: &str) -> Result<(bool, String)> {
    let mut command = Command::new(program("sandbox")?);
    command.args(["up", "--nodes", "1", "--name", &name(subject)]);
    command.env("XDG_CACHE_HOME", cache);
    let output = spawn_blocking(move || command.output()).await?;
    let output = output.context("run `sandbox up`")?;
    Ok((output.status.success(), String::from_utf8(output.stderr)?))
}

/// A cache folder with the built programs, but with a shell script for etcd.
fn another_etcd(built: &Sandbox, cache: &Path, script: &str) -> Result<()> {
    let whole = built
        .programs()
        .parent()
        .context("programs are in a folder of a folder")?;
    let name = whole.file_name().context("the folder has a name")?;
    let caches = cache.join("plimsoll/sandbox");
    fs::create_dir_all(&caches)?;
    for other in fs::read_dir(whole.parent().context("the cache is a folder")?)? {
        let other = other?;
        if other.path().is_dir() && other.file_name() != name {
            symlink(other.path(), caches.join(other.file_name()))?;
        }
    }
    let copy = caches.join(name);
    fs::create_dir_all(copy.join("bin"))?;
    if whole.join("files").exists() {
        symlink(whole.join("files"), copy.join("files"))?;
    }
    for program in fs::read_dir(built.programs())? {
        let program = program?;
        symlink(program.path(), copy.join("bin").join(program.file_name()))?;
    }
    let etcd = copy.join("bin/etcd");
    fs::remove_file(&etcd)?;
    fs::write(&etcd, format!("#!/bin/sh\n{script}\n"))?;
    fs::set_permissions(&etcd, fs::Permissions::from_mode(0o755)).map_err(Into::into)
}

fn process_state(pid: u32) -> Result<char> {
    let stat =
        fs::read_to_string(format!("/proc/{pid}/stat")).context("read the process' state")?;
    stat.rsplit_once(") ")
        .and_then(|(_, fields)| fields.chars().next())
        .context("no state")
}

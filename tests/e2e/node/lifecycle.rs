//! The end of a sandbox with a real node: whatever way it ends, nothing of it is left.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::{LOAD_IMAGE, can_run_real_node, eventually, load_image, program, real_node_options};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use kube::runtime::wait::{await_condition, conditions};
use rustix::process::Signal;
use sandbox::{Component, Record, Sandbox};
use serde_json::json;

/// A running sandbox with a pod in it, and what of it the machine can see.
async fn with_pod(name: &str) -> Result<(Sandbox, Record)> {
    let sandbox = Sandbox::up(real_node_options(name.to_owned())?, |_| {}).await?;
    sandbox.import(vec![load_image()?]).await?;
    let pods: Api<Pod> = Api::default_namespaced(sandbox.client().await?);
    let pod = json!({
        "metadata": {"name": "load"},
        "spec": {"containers": [{"name": "app", "image": LOAD_IMAGE}]},
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?)
        .await?;
    await_condition(pods, "load", conditions::is_pod_running()).await?;
    let record = sandbox.record()?;
    eventually("the sandbox is seen while it runs", async || {
        let left = left_of(name, &record)?;
        let has = |what: &str| left.iter().any(|it| it.starts_with(what));
        ensure!(has("cgroup") && has("process /load"), "{left:?}");
        Ok(())
    })
    .await?;
    Ok((sandbox, record))
}

/// Everything of a sandbox that is left on the machine: processes, namespaces, cgroups, mounts.
fn left_of(name: &str, record: &Record) -> Result<BTreeSet<String>> {
    let mut left = BTreeSet::new();
    for process in record.processes().filter(|process| process.is_alive()) {
        left.insert(format!("process {}", process.pid));
    }
    for entry in fs::read_dir("/proc")?.flatten() {
        let of_process = |file: &str| fs::read_to_string(entry.path().join(file));
        let (Ok(cgroups), Ok(command)) = (of_process("cgroup"), of_process("cmdline")) else {
            continue;
        };
        // Containers by their cgroups, and all that run below the sandbox's folder.
        if cgroups.contains(&cgroup(name)) || command.contains(&format!("sandbox/{name}/")) {
            left.insert(format!("process {}", command.replace('\0', " ")));
        }
    }
    for hierarchy in fs::read_dir("/sys/fs/cgroup")?.flatten() {
        let path = hierarchy.path().join(cgroup(name));
        if path.exists() {
            left.insert(format!("cgroup {}", path.display()));
        }
    }
    let path = Path::new("/sys/fs/cgroup").join(cgroup(name));
    if path.exists() {
        left.insert(format!("cgroup {}", path.display()));
    }
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let own = mounts
        .lines()
        .filter(|line| line.contains(&format!("sandbox/{name}/")));
    left.extend(own.map(|line| format!("mount {line}")));
    Ok(left)
}

fn cgroup(name: &str) -> String {
    format!("kubepods-sandbox-{name}")
}

/// Interfaces, rules and other settings of the machine's own network.
fn network() -> Result<String> {
    let mut found = String::new();
    for command in [
        ["ip", "-brief", "link"].as_slice(),
        &["ip", "route"],
        &["iptables-save"],
        &["cat", "/proc/sys/net/ipv4/ip_forward"],
    ] {
        let (program, arguments) = command.split_first().context("a command")?;
        let output = Command::new(program).args(arguments).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // Comments of iptables-save have the time.
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        found.extend(lines.map(|line| format!("{line}\n")));
    }
    Ok(found)
}

async fn nothing_is_left(name: &str, record: &Record) -> Result<()> {
    eventually("nothing of the sandbox is left", async || {
        let left = left_of(name, record)?;
        ensure!(left.is_empty(), "{left:#?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn nothing_is_left_however_a_sandbox_ends() -> Result<()> {
    if !can_run_real_node()? {
        return Ok(());
    }
    let before = network()?;
    let id = std::process::id();
    let (first, second) = (format!("e2e-{id}-down"), format!("e2e-{id}-kill"));
    let (down, of_down) = with_pod(&first).await?;
    // The second runs beside the first, with the same addresses.
    let (kill, of_kill) = with_pod(&second).await?;
    assert_eq!(network()?, before, "while they run");

    of_kill.supervisor.signal(Signal::KILL);
    nothing_is_left(&second, &of_kill).await?;
    drop(kill);
    let kubelet = down.status(Component::Kubelet)?;
    ensure!(
        kubelet.restarts == 0 && kubelet.process.is_some_and(|it| it.is_alive()),
        "the other sandbox goes on"
    );
    down.down().await?;
    nothing_is_left(&first, &of_down).await?;
    sandbox::down(&second).await?;
    assert_eq!(network()?, before, "after they ended");
    Ok(())
}

#[tokio::test]
async fn ctrl_c_leaves_nothing() -> Result<()> {
    if !can_run_real_node()? {
        return Ok(());
    }
    let name = format!("e2e-{}-ctrl-c", std::process::id());
    let mut up = tokio::process::Command::new(program("sandbox")?)
        .args(["up", "--node", "real", "--foreground", "--name", &name])
        .kill_on_drop(true)
        .spawn()?;
    let record = eventually("the sandbox is up", async || {
        let record = Record::of(&name).filter(|record| record.ready);
        record.context("it is not ready")
    })
    .await?;
    ensure!(!left_of(&name, &record)?.is_empty(), "it runs");
    let process = sandbox::Process::find(up.id().context("it runs")?).context("it runs")?;
    process.signal(Signal::INT);
    up.wait().await?;
    nothing_is_left(&name, &record).await
}

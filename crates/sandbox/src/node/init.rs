//! The first process of a real node's PID namespace. It gives the node a mount namespace, in which the
//! programs of the node may write anywhere without changing the machine, sets up the network, and
//! collects ended processes.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{Write, stdout};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{WaitOptions, wait};
use rustix::thread::UnshareFlags;

use super::{ADDRESS, SERVICE_RANGE, requirements};

pub(crate) const SUBCOMMAND: &str = "node-init";
/// Line that the process writes when the namespaces are ready.
pub(super) const READY: &str = "ready";
/// Pause while there is no process to wait for.
const IDLE: Duration = Duration::from_millis(200);
/// Folders with fixed paths that containerd and the kubelet write below. What they write is kept in
/// memory.
const WRITTEN: [&str; 3] = ["/var", "/opt", "/usr/libexec"];

/// Runs until it is killed. `state` is the folder of the sandbox, which stays as it is.
pub(crate) fn run(state: &Path) -> Result<()> {
    mount_file_systems(state)?;
    set_up_network()?;
    writeln!(stdout(), "{READY}").context("report that the namespaces are ready")?;
    loop {
        // Otherwise a process that was adopted has ended.
        if let Err(Errno::CHILD) = wait(WaitOptions::empty()) {
            sleep(IDLE);
        }
    }
}

fn mount_file_systems(state: &Path) -> Result<()> {
    super::namespaces::unshare(UnshareFlags::NEWNS).context("create a mount namespace")?;
    // Mounts of the machine still arrive; those made here stay here, but for containers.
    let every = MountPropagationFlags::REC;
    for kind in [
        MountPropagationFlags::DOWNSTREAM,
        MountPropagationFlags::SHARED,
    ] {
        mount_change("/", kind | every).context("separate the mounts from the machine's")?;
    }
    let own = File::open(state).with_context(|| format!("open {}", state.display()))?;
    let none: Option<&CStr> = None;
    mount("proc", "/proc", "proc", MountFlags::empty(), none).context("mount /proc")?;
    mount("tmpfs", "/run", "tmpfs", MountFlags::empty(), none).context("mount /run")?;
    for folder in WRITTEN
        .map(Path::new)
        .iter()
        .filter(|folder| folder.is_dir())
    {
        cover(folder)?;
        if state.starts_with(folder) {
            let source = PathBuf::from(format!("/proc/self/fd/{}", own.as_raw_fd()));
            mount_bind(&source, state).context("keep the sandbox's folder")?;
        }
    }
    Ok(())
}

/// Mounts a writable copy of a folder over it.
fn cover(folder: &Path) -> Result<()> {
    let name = folder.to_string_lossy().replace('/', "-");
    let (upper, work) = (format!("/run/{name}/upper"), format!("/run/{name}/work"));
    for path in [&upper, &work] {
        fs::create_dir_all(path).with_context(|| format!("create {path}"))?;
    }
    let options = format!(
        "lowerdir={},upperdir={upper},workdir={work}",
        folder.display()
    );
    let options = std::ffi::CString::new(options).context("a folder with a zero byte")?;
    mount(
        "overlay",
        folder,
        "overlay",
        MountFlags::empty(),
        options.as_c_str(),
    )
    .with_context(|| format!("mount a copy of {}", folder.display()))
}

/// Gives the node its address. The route makes addresses of Services reachable for programs of the
/// node: kube-proxy translates them after the route is chosen.
fn set_up_network() -> Result<()> {
    let commands = format!(
        "link set lo up\n\
         link add name plim0 type bridge\n\
         address add {ADDRESS}/32 dev plim0\n\
         link set plim0 up\n\
         route add {SERVICE_RANGE} dev plim0\n"
    );
    let ip = requirements::find("ip").context("program ip is not in PATH")?;
    let mut child = Command::new(ip)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("start ip")?;
    child
        .stdin
        .take()
        .context("no pipe to ip")?
        .write_all(commands.as_bytes())
        .context("write to ip")?;
    let status = child.wait().context("wait for ip")?;
    ensure!(status.success(), "ip failed with {status}");
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("forward packets of pods")?;
    // Pods on one bridge reach each other by addresses of Services; without the module there is no
    // such file, and packets do not pass the rules.
    let bridged = Path::new("/proc/sys/net/bridge/bridge-nf-call-iptables");
    if bridged.exists() {
        fs::write(bridged, "1").context("apply rules to bridged packets")?;
    }
    Ok(())
}

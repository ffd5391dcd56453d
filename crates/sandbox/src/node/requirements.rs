//! Requirements of a real node, beyond those of the control plane.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use super::cgroups::Hierarchies;
use crate::layout::states;

/// Programs of the machine that a real node runs, and the Debian package of each.
const PROGRAMS: [(&str, &str); 3] = [
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("ip", "iproute2"),
];
/// Bits of `CapEff`: administration of the network and of the system.
const CAPABILITIES: [(u32, &str); 2] = [(12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN")];

/// Free space on the disk of its folder: images of the suite, as archives, unpacked, and running.
const DISK_MIB: u64 = 4096;

/// Unmet requirements of a real node on this machine, one sentence each.
pub fn missing_for_real_node() -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("it needs root: run as root".to_owned());
    } else if let Some(name) = missing_capability() {
        missing.push(format!(
            "root lacks {name}: run outside of a restricted container"
        ));
    }
    for (program, package) in PROGRAMS {
        if find(program).is_none() {
            missing.push(format!(
                "program {program} is not in PATH: apt-get install {package}"
            ));
        }
    }
    let writable = Hierarchies::mounted().and_then(|hierarchies| hierarchies.check_writable());
    let errors = [writable, disk_has_room()]
        .into_iter()
        .filter_map(Result::err);
    missing.extend(errors.map(|error| format!("{error:#}")));
    missing
}

fn disk_has_room() -> Result<()> {
    let states = states()?;
    let folder = states.ancestors().find(|folder| folder.exists());
    let folder = folder.context("no folder of the home folder exists")?;
    let disk = rustix::fs::statvfs(folder)
        .with_context(|| format!("ask for the disk of {}", folder.display()))?;
    let free_mib = disk.f_bavail * disk.f_frsize / (1024 * 1024);
    ensure!(
        free_mib >= DISK_MIB,
        "the disk of {} has {free_mib} MiB free, a node needs {DISK_MIB}: free some",
        folder.display(),
    );
    Ok(())
}

pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let is_program = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(&path)
        // Where Debian has them, also without a login shell of root.
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(is_program)
}

fn missing_capability() -> Option<&'static str> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(line.trim(), 16).ok()?;
    CAPABILITIES
        .iter()
        .find(|(bit, _)| effective >> bit & 1 == 0)
        .map(|(_, name)| *name)
}

//! The cgroups of a real node: one folder per sandbox in each hierarchy of the machine (one
//! hierarchy with cgroup v2), below which the kubelet makes `kubepods`.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// Limit for the processes of a killed namespace to leave their cgroups.
const EMPTY_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two attempts to remove a cgroup that has processes.
const POLL: Duration = Duration::from_millis(20);

/// Name of the cgroup of a sandbox, below the root of each hierarchy.
pub(crate) fn name(sandbox: &str) -> String {
    format!("kubepods-sandbox-{sandbox}")
}

/// Mount points of the machine's cgroup hierarchies.
pub(crate) struct Hierarchies {
    v1: Vec<PathBuf>,
    v2: Vec<PathBuf>,
}

impl Hierarchies {
    pub(crate) fn mounted() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("read the mounts")?;
        Ok(Self::parse(&mounts))
    }

    fn parse(mounts: &str) -> Self {
        let of = |wanted: &str| {
            mounts
                .lines()
                .filter_map(|line| {
                    let mut words = line.split(' ').skip(1);
                    let folder = words.next()?;
                    (words.next()? == wanted).then(|| PathBuf::from(folder))
                })
                .collect()
        };
        Self {
            v1: of("cgroup"),
            v2: of("cgroup2"),
        }
    }

    /// The hierarchies that a kubelet uses: v1 where there is any, else v2.
    fn used(&self) -> &[PathBuf] {
        if self.v1.is_empty() {
            &self.v2
        } else {
            &self.v1
        }
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        ensure!(!self.used().is_empty(), "no cgroup hierarchy is mounted");
        for folder in self.used() {
            rustix::fs::access(folder, rustix::fs::Access::WRITE_OK)
                .with_context(|| format!("cgroups in {} cannot be made", folder.display()))?;
        }
        Ok(())
    }

    pub(crate) fn create(&self, sandbox: &str) -> Result<()> {
        if self.v1.is_empty() {
            self.v2.iter().try_for_each(|root| delegate(root))?;
        }
        for folder in self.used() {
            let path = folder.join(name(sandbox));
            match fs::create_dir(&path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(error).with_context(|| format!("create {}", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes the cgroup of a sandbox with all below it, once their processes have ended. It may
    /// not exist.
    pub(crate) fn remove(&self, sandbox: &str) -> Result<()> {
        let deadline = Instant::now() + EMPTY_TIMEOUT;
        for folder in self.v1.iter().chain(&self.v2) {
            let path = folder.join(name(sandbox));
            while path.exists() && !remove_empty(&path) {
                ensure!(
                    Instant::now() < deadline,
                    "the cgroup {} still has processes after {} s",
                    path.display(),
                    EMPTY_TIMEOUT.as_secs()
                );
                sleep(POLL);
            }
        }
        Ok(())
    }
}

/// Lets the children of the root have all controllers, as a kubelet requires.
fn delegate(root: &Path) -> Result<()> {
    let available = root.join("cgroup.controllers");
    let available =
        fs::read_to_string(&available).with_context(|| format!("read {}", available.display()))?;
    for controller in available.split_whitespace() {
        // One that cannot be had is named by the kubelet, if it needs it.
        let _ = fs::write(
            root.join("cgroup.subtree_control"),
            format!("+{controller}"),
        );
    }
    Ok(())
}

/// Removes a cgroup and those below it; `false` if one still has processes.
fn remove_empty(path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(path) else {
        return !path.exists();
    };
    let mut children = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    // The files of a cgroup go with its folder.
    children.all(|child| remove_empty(&child.path())) && fs::remove_dir(path).is_ok()
}

pub(crate) const SUBCOMMAND: &str = "remove-cgroups";

/// Starts the process that removes the cgroups of a real node after its end, in whatever way it ended,
/// outside of the node's namespaces. It goes on after the caller, until the pipe to it is closed.
pub(super) fn start_cleaner(sandbox: &Path, name: &str) -> Result<Child> {
    Command::new(sandbox)
        .args([SUBCOMMAND, name])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("start the process that removes cgroups")
}

/// Waits until standard input is closed, then removes the cgroups of this sandbox.
pub(crate) fn clean(name: &str) -> Result<()> {
    // Ctrl-C is for the sandbox, whose end closes the pipe.
    let _ = rustix::process::setsid();
    io::stdin()
        .read_to_end(&mut Vec::new())
        .context("wait for the end of the supervisor")?;
    Hierarchies::mounted()?.remove(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
        cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";

    #[test]
    fn a_machine_with_both_versions_uses_the_first() {
        let used = Hierarchies::parse(V1);
        assert_eq!(used.used(), [PathBuf::from("/sys/fs/cgroup/memory")]);
    }

    #[test]
    fn a_machine_with_the_second_version_has_one_hierarchy() {
        let used = Hierarchies::parse("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
        assert_eq!(used.used(), [PathBuf::from("/sys/fs/cgroup")]);
    }

    #[test]
    fn removal_goes_from_the_leaves_up() {
        let root = tempfile::tempdir().unwrap();
        let of = Hierarchies {
            v1: vec![root.path().to_owned()],
            v2: Vec::new(),
        };
        of.create("a").unwrap();
        of.create("a").unwrap();
        fs::create_dir_all(root.path().join(name("a")).join("kubepods/burstable/pod1")).unwrap();
        fs::create_dir(root.path().join("other")).unwrap();
        of.remove("a").unwrap();
        of.remove("a").unwrap();
        let left: Vec<_> = fs::read_dir(root.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1);
    }
}

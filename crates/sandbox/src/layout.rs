//! Folders of a sandbox: one for its state, and one with a short path for sockets, whose paths must
//! be below 108 bytes.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use crate::component::Component;

/// Longest path that fits into a socket address.
const SOCKET_PATH_BYTES: usize = 107;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    name: String,
    states: PathBuf,
    runtime: PathBuf,
}

impl Layout {
    /// The folders of the sandbox with this name, which must be a short DNS label.
    pub(crate) fn of(name: &str) -> Result<Self> {
        check_name(name)?;
        let states = states()?;
        let runtime = match absolute("XDG_RUNTIME_DIR") {
            Some(runtime) => runtime.join("plimsoll"),
            None => PathBuf::from(format!(
                "/tmp/plimsoll-{}",
                rustix::process::getuid().as_raw()
            )),
        };
        let layout = Self {
            name: name.to_owned(),
            states,
            runtime,
        };
        let socket = layout.proxy_socket();
        ensure!(
            socket.as_os_str().len() <= SOCKET_PATH_BYTES,
            "{} is too long for a socket; set XDG_RUNTIME_DIR to a shorter folder",
            socket.display()
        );
        Ok(layout)
    }

    #[cfg(test)]
    pub(crate) fn below(name: &str, folder: &Path) -> Self {
        Self {
            name: name.to_owned(),
            states: folder.join("states"),
            runtime: folder.join("runtime"),
        }
    }

    pub(crate) fn names() -> Result<Vec<String>> {
        let states = states()?;
        let Ok(entries) = fs::read_dir(&states) else {
            return Ok(Vec::new());
        };
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.path().is_dir())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        Ok(names)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Folder of everything but the sockets.
    pub(crate) fn state(&self) -> PathBuf {
        self.states.join(&self.name)
    }

    /// Lock of starting and stopping a sandbox of this name; outlives the state folder.
    pub(crate) fn lock(&self) -> PathBuf {
        self.states.join(format!("{}.lock", self.name))
    }

    /// The record of processes and ports.
    pub(crate) fn record(&self) -> PathBuf {
        self.state().join("sandbox.json")
    }

    pub(crate) fn certificates(&self) -> PathBuf {
        self.state().join("pki")
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.state().join("kubeconfig")
    }

    pub(crate) fn kubeconfig_of(&self, component: Component) -> PathBuf {
        self.state().join("kubeconfigs").join(component.name())
    }

    /// One log file per component.
    pub(crate) fn logs(&self) -> PathBuf {
        self.state().join("logs")
    }

    pub(crate) fn log(&self, component: Component) -> PathBuf {
        self.logs().join(format!("{component}.log"))
    }

    pub(crate) fn supervisor_log(&self) -> PathBuf {
        self.logs().join("supervisor.log")
    }

    /// The audit log: among the other logs, or in another folder under the name of the sandbox.
    pub(crate) fn audit_log(&self, folder: Option<&Path>) -> PathBuf {
        folder.map_or_else(
            || self.logs().join("audit.log"),
            |folder| folder.join(format!("{}.log", self.name)),
        )
    }

    /// Volumes and logs of hosted pods.
    pub(crate) fn pods(&self) -> PathBuf {
        self.state().join("pods")
    }

    /// Folder of further files of Prometheus: `rules-*.yaml` and `scrape-*.yaml`.
    pub(crate) fn prometheus_files(&self) -> PathBuf {
        self.state().join("config/prometheus")
    }

    /// Files of the real node: configuration, images, volumes and logs of its pods.
    pub(crate) fn node(&self) -> PathBuf {
        self.state().join("node")
    }

    /// A component's generated configuration file.
    pub(crate) fn config(&self, file: &str) -> PathBuf {
        self.state().join("config").join(file)
    }

    pub(crate) fn data(&self, component: Component) -> PathBuf {
        self.state().join("data").join(component.name())
    }

    /// The supervisor's socket for requests.
    pub(crate) fn control_socket(&self) -> PathBuf {
        self.sockets().join("control")
    }

    /// The proxy's socket for the API server's connections to pods and Services.
    pub(crate) fn proxy_socket(&self) -> PathBuf {
        self.sockets().join("proxy")
    }

    fn sockets(&self) -> PathBuf {
        self.runtime.join(&self.name)
    }

    /// Creates all folders, readable by their owner only.
    pub(crate) fn create(&self) -> Result<()> {
        own_folder(&self.runtime)?;
        let folders = [
            self.state(),
            self.sockets(),
            self.logs(),
            self.pods(),
            self.state().join("kubeconfigs"),
            self.state().join("config"),
        ];
        folders.iter().try_for_each(|folder| own_folder(folder))
    }

    pub(crate) fn create_root(&self) -> Result<()> {
        own_folder(&self.states)
    }

    /// Removes everything that belongs to this sandbox.
    pub(crate) fn remove(&self) -> Result<()> {
        remove(&self.state())?;
        remove(&self.sockets())
    }

    /// Removes the remains of an attempt to start: all but the logs and the sockets.
    pub(crate) fn forget_attempt(&self) -> Result<()> {
        let Ok(entries) = fs::read_dir(self.state()) else {
            return Ok(());
        };
        entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| *path != self.logs())
            .try_for_each(|path| remove(&path))
    }

    pub(crate) fn remove_all_but_logs(&self) -> Result<()> {
        remove(&self.sockets())?;
        self.forget_attempt()
    }
}

/// The folder of the states of all sandboxes of this user. It need not exist.
pub(crate) fn states() -> Result<PathBuf> {
    Ok(base("XDG_STATE_HOME", ".local/state")?.join("plimsoll/sandbox"))
}

/// A base folder of the XDG specification.
pub(crate) fn base(variable: &str, below_home: &str) -> Result<PathBuf> {
    if let Some(path) = absolute(variable) {
        return Ok(path);
    }
    let home = absolute("HOME").with_context(|| format!("neither HOME nor {variable} is set"))?;
    Ok(home.join(below_home))
}

fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

fn check_name(name: &str) -> Result<()> {
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let fits = (1..=32).contains(&name.len()) && name.starts_with(plain) && name.ends_with(plain);
    ensure!(
        fits && name.chars().all(|letter| plain(letter) || letter == '-'),
        "name {name:?} must be 1 to 32 of a-z, 0-9 and inner dashes"
    );
    Ok(())
}

fn own_folder(path: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("create {}", path.display()))?;
    let owner = fs::symlink_metadata(path)
        .with_context(|| format!("read the metadata of {}", path.display()))?;
    if owner.uid() != rustix::process::geteuid().as_raw() || !owner.is_dir() {
        bail!("{} belongs to another user", path.display());
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, accepted: bool) {
        assert_eq!(check_name(name).is_ok(), accepted, "{name:?}");
    }

    #[test]
    fn names_are_short_labels_that_cannot_leave_their_folder() {
        check("default", true);
        check("two-2", true);
        for name in [
            "",
            "..",
            "a/b",
            "-a",
            "a-",
            "A",
            "a_b",
            "a".repeat(33).as_str(),
        ] {
            check(name, false);
        }
    }
}

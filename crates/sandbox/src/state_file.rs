//! The record of a running sandbox: processes, ports and the state of each component. It outlives
//! the supervisor, and every other process reads it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::component::Component;
use crate::layout::Layout;
use crate::ports::Ports;
use crate::process_id::Process;

/// A sandbox as its supervisor last saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The parent of all other processes.
    pub supervisor: Process,
    pub ports: Ports,
    /// Folder of etcd and of the programs of Kubernetes.
    pub programs: PathBuf,
    pub real_node: Option<RealNode>,
    /// Whether all components are up.
    pub ready: bool,
    pub components: BTreeMap<Component, Status>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealNode {
    /// First process of the node's namespaces.
    pub init: Process,
    pub sandbox: PathBuf,
    /// Folder of containerd's programs.
    pub container_runtime: PathBuf,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub phase: Phase,
    pub process: Option<Process>,
    /// Restarts after it ended by itself.
    pub restarts: u32,
    pub last_exit: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Not started, or stopped on purpose.
    #[default]
    Stopped,
    Running,
    /// Its process is suspended on purpose.
    Paused,
    /// It ended by itself and is restarted after a pause.
    BackingOff,
}

impl Record {
    /// The last record of the sandbox of this name, if there is one.
    pub fn of(name: &str) -> Option<Self> {
        Self::read(&Layout::of(name).ok()?)
    }

    /// The last record of a sandbox, if it has one that can be read.
    pub(crate) fn read(layout: &Layout) -> Option<Self> {
        serde_json::from_slice(&fs::read(layout.record()).ok()?).ok()
    }

    /// Replaces the record atomically: a reader sees the old or the new one.
    pub(crate) fn write(&self, layout: &Layout) -> Result<()> {
        let path = layout.record();
        let aside = path.with_extension("json.new");
        let text = serde_json::to_vec_pretty(self).context("render the record")?;
        fs::write(&aside, text)
            .and_then(|()| fs::rename(&aside, &path))
            .with_context(|| format!("write {}", path.display()))
    }

    /// Whether the supervisor still runs.
    pub fn is_alive(&self) -> bool {
        self.supervisor.is_alive()
    }

    /// All processes that were recorded.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.components
            .values()
            .filter_map(|status| status.process.as_ref())
            .chain(self.real_node.iter().map(|node| &node.init))
            .chain([&self.supervisor])
    }
}

/// Takes the lock of the sandbox's name: one process at a time starts a sandbox or removes its files.
/// Waits until it is free. The kernel releases it when its file is closed, also after a kill.
pub(crate) fn lock(layout: &Layout) -> Result<File> {
    loop {
        let file = lock_file(layout)?;
        file.lock()
            .with_context(|| format!("lock {}", layout.lock().display()))?;
        if is_in_place(&file, layout)? {
            return Ok(file);
        }
    }
}

/// Takes the lock if it is free.
pub(crate) fn try_lock(layout: &Layout) -> Result<Option<File>> {
    let file = lock_file(layout)?;
    Ok((file.try_lock().is_ok() && is_in_place(&file, layout)?).then_some(file))
}

fn lock_file(layout: &Layout) -> Result<File> {
    layout.create_root()?;
    File::create(layout.lock()).with_context(|| format!("create {}", layout.lock().display()))
}

/// Whether a locked file is still the lock: the last owner may have removed it.
fn is_in_place(file: &File, layout: &Layout) -> Result<bool> {
    let locked = file.metadata().context("read the metadata of the lock")?;
    Ok(fs::metadata(layout.lock()).is_ok_and(|there| there.ino() == locked.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_whose_file_was_removed_locks_nothing() {
        let states = tempfile::tempdir().unwrap();
        let layout = Layout::below("name", states.path());
        let held = lock(&layout).unwrap();
        assert!(try_lock(&layout).unwrap().is_none());
        fs::remove_file(layout.lock()).unwrap();
        assert!(!is_in_place(&held, &layout).unwrap());
        assert!(try_lock(&layout).unwrap().is_some());
    }
}

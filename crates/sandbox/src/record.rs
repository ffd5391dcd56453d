//! What a running sandbox writes down about itself: which processes, which ports, how each
//! component fares. Everybody else learns from this file, also after the supervisor was killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::component::Component;
use crate::layout::Layout;
use crate::ports::Ports;
use crate::process::Process;

/// A sandbox as its supervisor last saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The process that all others belong to.
    pub supervisor: Process,
    /// Who listens where.
    pub ports: Ports,
    /// Folder of the control plane's programs.
    pub programs: PathBuf,
    /// Whether everything came up.
    pub ready: bool,
    /// Each component's state.
    pub components: BTreeMap<Component, Status>,
}

/// How one component fares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// What it is doing.
    pub phase: Phase,
    /// Its process, while it has one.
    pub process: Option<Process>,
    /// How often it was started again after it had ended by itself.
    pub restarts: u32,
    /// How it last ended by itself.
    pub last_exit: Option<String>,
}

/// What a component is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Not started, or stopped on purpose.
    #[default]
    Stopped,
    /// Its process runs.
    Running,
    /// Its process is frozen on purpose.
    Paused,
    /// It ended by itself and is started again after a pause.
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

    /// Replaces the record; a reader sees the old or the new one, never half of one.
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
            .chain([&self.supervisor])
    }
}

//! What a supervisor is told when it is started, and what it tells back while it starts a sandbox:
//! JSON lines over its standard streams.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A sandbox to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxConfig {
    /// Name, of which there can be one at a time.
    pub(crate) name: String,
    /// Number of nodes.
    pub(crate) nodes: u16,
    /// This program.
    pub(crate) sandbox: PathBuf,
    /// Folder of the built control plane.
    pub(crate) control_plane: PathBuf,
    /// Folder of the built Prometheus, when it is wanted.
    pub(crate) prometheus: Option<PathBuf>,
    /// Folder of the programs that hosted pods run.
    pub(crate) hosted_programs: PathBuf,
    /// First wait of a hosted container that ends again and again.
    pub(crate) restart_back_off: Duration,
}

/// The line after the plan that frees a supervisor from the life of whoever started it.
pub(crate) const DETACH: &str = "detach";

/// What happened while starting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StartEvent {
    /// A step was taken.
    Step(String),
    /// Everything is up.
    Ready,
    /// It did not work; nothing runs any more.
    Failed(String),
}

//! Where history comes from that is older than this process (`--storage`). The only place that
//! knows the choices.

use std::str::FromStr;

/// Where history comes from that is older than this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Storage {
    /// `VerticalPodAutoscalerCheckpoint` objects.
    #[default]
    Checkpoint,
    /// Prometheus, or another store that answers like it. Checkpoints are written, but not read.
    Prometheus,
}

/// A storage that does not exist. Upstream takes any unknown word for checkpoints, so that a slip
/// goes unnoticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected checkpoint or prometheus")]
pub struct UnknownStorage;

impl FromStr for Storage {
    type Err = UnknownStorage;

    fn from_str(name: &str) -> Result<Self, UnknownStorage> {
        match name {
            "" | "checkpoint" => Ok(Self::Checkpoint),
            "prometheus" => Ok(Self::Prometheus),
            _ => Err(UnknownStorage),
        }
    }
}

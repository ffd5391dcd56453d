//! Value of `--storage`.

use std::str::FromStr;

/// Storage of history from before this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Storage {
    /// `VerticalPodAutoscalerCheckpoint` objects.
    #[default]
    Checkpoint,
    /// Prometheus, or another store with its API. Checkpoints are written, but not read.
    Prometheus,
}

/// Unknown storage. Upstream treats any unknown value as checkpoints, so that a typo goes
/// unnoticed.
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

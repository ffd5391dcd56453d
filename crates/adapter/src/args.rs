//! The adapter's flags.

use runtime::{CommonArgs, Program};

use crate::guard::GuardArgs;

/// What sets the adapter's command line apart.
pub const PROGRAM: Program =
    Program { name: "adapter", version: env!("CARGO_PKG_VERSION"), defaults: &[("address", ":8945")] };

/// Answers the custom and external metrics that the horizontal pod autoscaler reads.
#[derive(Debug, Clone, clap::Parser)]
pub struct Args {
    /// Flags of every program.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Flags about callers.
    #[command(flatten)]
    pub guard: GuardArgs,
}

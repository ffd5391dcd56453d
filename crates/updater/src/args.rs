//! The updater's flags.

use runtime::{CommonArgs, LeaderElectionArgs, Program};

/// What sets the updater's command line apart.
pub const PROGRAM: Program = Program {
    name: "updater",
    version: env!("CARGO_PKG_VERSION"),
    defaults: &[("address", ":8943"), ("leader-elect-resource-name", "vpa-updater")],
};

/// Gives running pods the size that is recommended, within what their owners allow.
#[derive(Debug, Clone, clap::Parser)]
pub struct Args {
    /// Flags of every program.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Flags of the election.
    #[command(flatten)]
    pub election: LeaderElectionArgs,
}

//! Gives running pods the size that is recommended, with the least disruption: in place where that works, by eviction
//! within the budget where not.
//!
//! `decide` is pure: which pods, in which order, how many at a time. The rest of the program carries it out.

mod args;
pub mod decide;

pub use args::{Args, PROGRAM};

use runtime::Chassis;

/// The updater's work.
pub async fn run(args: Args, chassis: Chassis) -> anyhow::Result<()> {
    let Args { common: _, election: _ } = args;
    chassis.shutdown.cancelled().await;
    Ok(())
}

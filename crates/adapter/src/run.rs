//! Starts everything.

use runtime::Chassis;

use crate::args::Args;

/// The adapter's work.
pub async fn run(args: Args, chassis: Chassis) -> anyhow::Result<()> {
    let Args { common: _ } = args;
    chassis.shutdown.cancelled().await;
    Ok(())
}

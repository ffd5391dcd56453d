//! Starts everything.

use runtime::Chassis;

use crate::args::Args;
use crate::guard::Guard;

/// The adapter's work.
pub async fn run(args: Args, chassis: Chassis) -> anyhow::Result<()> {
    let Args { common: _, guard } = args;
    let Some(_guard) = Guard::start(guard, &chassis).await? else { return Ok(()) };
    chassis.shutdown.cancelled().await;
    Ok(())
}

//! The pause after a look at all objects, and the timer that ends it.

use tokio::time::{Instant, sleep_until};

/// The pause after a look at all objects, as a multiple of the time that the look took: while
/// thousands of statuses are written, each of which comes back as a change, the CPU is for writing
/// them.
pub(crate) const COOLDOWN_FACTOR: u32 = 10;

/// Sleeps until a time; for ever without one.
pub(crate) async fn sleep_until_some(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

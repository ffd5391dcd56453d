//! Waits until something is as it should be.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Longer than anything takes here, also on a busy machine; only a failure waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);
/// From one look to the next.
const POLL: Duration = Duration::from_millis(10);

/// Looks again and again until `is_so`.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) -> Result<()> {
    let mut looks = interval(POLL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let so = async {
        while !is_so().await {
            looks.tick().await;
        }
    };
    timeout(PATIENCE, so).await.with_context(|| format!("waited {PATIENCE:?} until {what}"))
}

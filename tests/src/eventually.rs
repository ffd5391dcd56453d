//! Waits until something in the cluster is as it should be.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep_until};

/// Pause between two looks.
const POLL: Duration = Duration::from_millis(100);

/// Looks again and again until `look` succeeds, and hands back what it found. After `limit` the last look's error is the
/// error: it should say what was seen instead. The folder of the sandbox's logs is named with it.
pub async fn eventually<T>(what: &str, limit: Duration, mut look: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        let next = Instant::now() + POLL;
        match look().await {
            Ok(found) => return Ok(found),
            Err(error) if next >= deadline => return Err(error).with_context(|| in_vain(what, limit)),
            Err(_) => sleep_until(next).await,
        }
    }
}

fn in_vain(what: &str, limit: Duration) -> String {
    let logs = crate::control_plane::logs().map(|folder| format!(" (logs: {})", folder.display())).unwrap_or_default();
    format!("waited {limit:?} until {what}{logs}")
}

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    #[tokio::test]
    async fn the_first_success_is_handed_back() {
        let mut looks = 0;
        let found = eventually("the third look", Duration::from_mins(1), async || {
            looks += 1;
            ensure!(looks == 3, "only look {looks}");
            Ok(looks)
        });
        assert_eq!(found.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn the_last_failure_says_what_was_seen() {
        let error = eventually("pigs fly", Duration::ZERO, async || -> Result<()> { anyhow::bail!("they walk") });
        assert_eq!(format!("{:#}", error.await.unwrap_err()), "waited 0ns until pigs fly: they walk");
    }
}

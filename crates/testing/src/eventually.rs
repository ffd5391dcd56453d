//! Polling until a condition holds.

use std::fmt::Display;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::{Instant, sleep_until, timeout};

/// Limit and interval of polling.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// After this the wait is in vain. A single look may take as long, too.
    pub limit: Duration,
    /// From the beginning of one look to that of the next.
    pub every: Duration,
}

impl Pace {
    /// For what happens within this process: longer than anything takes there, also on a busy
    /// machine. Only a failure waits so long.
    pub const WITHIN: Self = Self {
        limit: Duration::from_mins(2),
        every: Duration::from_millis(10),
    };
}

/// Looks again and again until `look` succeeds, and hands back what it found. In vain, the last
/// look's error is the error: it should say what was seen instead.
pub async fn eventually<T>(
    what: impl Display,
    pace: Pace,
    mut look: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let Pace { limit, every } = pace;
    let in_vain = || format!("waited {limit:?} until {what}");
    let deadline = Instant::now() + limit;
    loop {
        let next = Instant::now() + every;
        match timeout(limit, look())
            .await
            .context("a look takes too long")
            .flatten()
        {
            Ok(found) => return Ok(found),
            Err(error) if next >= deadline => return Err(error).with_context(in_vain),
            Err(_) => sleep_until(next).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{bail, ensure};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_success_is_handed_back() {
        let mut looks = 0;
        let found = eventually("the third look", Pace::WITHIN, async || {
            looks += 1;
            ensure!(looks == 3, "only look {looks}");
            Ok(looks)
        });
        assert_eq!(found.await.unwrap(), 3);
    }

    async fn check(look: impl AsyncFnMut() -> Result<()>, expected: &str) {
        let error = eventually("pigs fly", Pace::WITHIN, look)
            .await
            .unwrap_err();
        assert_eq!(format!("{error:#}"), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_failure_says_what_was_seen() {
        check(
            async || bail!("they walk"),
            "waited 120s until pigs fly: they walk",
        )
        .await;
        let stuck = "waited 120s until pigs fly: a look takes too long: deadline has elapsed";
        check(async || std::future::pending().await, stuck).await;
    }
}

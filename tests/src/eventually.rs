//! Waits until something in the cluster is as it should be.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use testing::Pace;

/// From one look to the next: each is a question to the API server, at least.
const POLL: Duration = Duration::from_millis(100);

/// Looks again and again until `look` succeeds, and hands back what it found. After `limit` the
/// last look's error is the error: it should say what was seen instead. The folder of the sandbox's
/// logs is named with it.
pub async fn eventually<T>(
    what: &str,
    limit: Duration,
    look: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    testing::eventually(WithLogs(what), Pace { limit, every: POLL }, look).await
}

/// What was waited for, and where to look for why it did not come.
struct WithLogs<'a>(&'a str);

impl fmt::Display for WithLogs<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)?;
        match crate::control_plane::logs() {
            Some(folder) => write!(formatter, " (logs: {})", folder.display()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_failure_says_what_was_seen() {
        let error = eventually("pigs fly", Duration::ZERO, async || -> Result<()> {
            anyhow::bail!("they walk")
        });
        assert_eq!(
            format!("{:#}", error.await.unwrap_err()),
            "waited 0ns until pigs fly: they walk"
        );
    }
}

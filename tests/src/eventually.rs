//! Polls the cluster until a condition holds, with a limit.

use std::fmt;
use std::time::Duration;

use anyhow::{Error, Result, ensure};
use testing::Pace;
use tokio::time::{Instant, sleep_until};

/// From one look to the next: each is a question to the API server, at least.
const POLL: Duration = Duration::from_millis(100);
/// Pause after a look, in multiples of its duration: the machine shall do what is waited for, not
/// look at it.
const REST: u32 = 2;
/// The longest such pause: a request that times out after a minute is repeated soon.
const MAX_REST: Duration = Duration::from_secs(5);

/// Limit of a wait for anything that takes a moment on an idle machine. metrics-server takes up to
/// half a minute until it knows a new pod. A machine with twenty times as much to do is not a failure.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// Polls until `look` succeeds, and returns its value. After [`PATIENCE`] the last error of `look`
/// is returned, which should say what it saw instead, with the folder of the sandbox's logs.
pub async fn eventually<T>(what: &str, look: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    eventually_within(PATIENCE, what, look).await
}

/// The same with another limit.
pub async fn eventually_within<T>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let mut next = None;
    let look = async || {
        if let Some(next) = next {
            sleep_until(next).await;
        }
        let begun = Instant::now();
        let found = look().await;
        next = Some(Instant::now() + (begun.elapsed() * REST).min(MAX_REST));
        found
    };
    testing::eventually(WithLogs(what), Pace { limit, every: POLL }, look).await
}

/// Polls a value until it is accepted. The error shows the last one.
pub async fn until<T: fmt::Debug, E: Into<Error>>(
    what: &str,
    look: impl AsyncFnMut() -> Result<T, E>,
    is_so: impl Fn(&T) -> bool,
) -> Result<()> {
    until_within(PATIENCE, what, look, is_so).await
}

/// The same with another limit.
pub async fn until_within<T: fmt::Debug, E: Into<Error>>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, E>,
    is_so: impl Fn(&T) -> bool,
) -> Result<()> {
    eventually_within(limit, what, async || {
        let value = look().await.map_err(Into::into)?;
        ensure!(is_so(&value), "{value:?}");
        Ok(())
    })
    .await
}

/// A condition, and the folder of the logs.
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
        let error = eventually_within(Duration::ZERO, "pigs fly", async || -> Result<()> {
            anyhow::bail!("they walk")
        });
        assert_eq!(
            format!("{:#}", error.await.unwrap_err()),
            "waited 0ns until pigs fly: they walk"
        );
    }
}

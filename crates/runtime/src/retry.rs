//! Retries of requests to the API server, with exponential backoff and jitter.
//!
//! The delay after failure `n`, from 0, is `initial * 2^n`, at most `cap`, times a random factor
//! between one half and one, so that clients that failed together do not retry together. A longer
//! `Retry-After` of the server wins.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder, Retryable as _};
use tokio::time::Instant;

use crate::leader_term::NotLeading;

/// Maximum of the server's `Retry-After`.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(1);

/// The minimum pause before a retry: the server's `Retry-After`, or zero; `None` if the request
/// will fail again. Connection errors, conflicts (409), overload (429) and 5xx are retried.
///
/// After a conflict the request must be built again from the current object.
fn retry_after(error: &kube::Error) -> Option<Duration> {
    match error {
        error if NotLeading::is(error) => None,
        kube::Error::Api(status) if matches!(status.code, 409 | 429 | 500..=599) => {
            let seconds = status
                .details
                .as_ref()
                .map_or(0, |details| details.retry_after_seconds);
            Some(Duration::from_secs(seconds.into()).min(LONGEST_RETRY_AFTER))
        }
        kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => {
            Some(Duration::ZERO)
        }
        _ => None,
    }
}

/// The pauses and the number of tries of a request; six tries in about six seconds by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub initial: Duration,
    /// Maximum pause, unless the server asks for a longer one.
    pub cap: Duration,
    /// Maximum number of tries, at least 1.
    pub tries: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(200),
            cap: Duration::from_secs(5),
            tries: 6,
        }
    }
}

impl Backoff {
    fn builder(&self) -> ExponentialBuilder {
        // The library adds a random share of up to the same again.
        ExponentialBuilder::new()
            .with_min_delay(self.initial.min(self.cap) / 2)
            .with_max_delay(self.cap / 2)
            .with_max_times(self.tries.saturating_sub(1) as usize)
            .with_jitter()
    }

    /// The delays before the second and later tries.
    pub fn delays(&self) -> ExponentialBackoff {
        self.builder().build()
    }

    /// Makes a request until it succeeds, fails finally, or its tries end. Returns the last error.
    pub async fn retry<T, R>(&self, request: impl FnMut() -> R) -> kube::Result<T>
    where
        R: Future<Output = kube::Result<T>>,
    {
        request
            .retry(self.builder())
            .sleep(tokio::time::sleep)
            .adjust(|error, delay| Some(delay?.max(retry_after(error)?)))
            .notify(|error, delay| tracing::debug!(%error, ?delay, "trying again"))
            .await
    }
}

/// Keys whose last attempt failed, each with its own delays. A key that never failed is due.
#[derive(Debug)]
pub struct KeyedBackoff<K> {
    backoff: Backoff,
    failed: BTreeMap<K, Failure>,
}

#[derive(Debug)]
struct Failure {
    delays: ExponentialBackoff,
    next: Instant,
    problem: String,
}

impl<K: Ord> KeyedBackoff<K> {
    /// Without failures. A key whose tries are used up waits for the cap.
    pub fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            failed: BTreeMap::new(),
        }
    }

    /// Whether the next attempt may be made now.
    pub fn is_due(&self, key: &K, now: Instant) -> bool {
        self.failed
            .get(key)
            .is_none_or(|failure| failure.next <= now)
    }

    pub fn failed(&mut self, key: K, problem: String, now: Instant) {
        let before = self.failed.remove(&key);
        let mut delays = before.map_or_else(|| self.backoff.delays(), |failure| failure.delays);
        let next = now + delays.next().unwrap_or(self.backoff.cap);
        let failure = Failure {
            delays,
            next,
            problem,
        };
        self.failed.insert(key, failure);
    }

    pub fn succeeded(&mut self, key: &K) {
        self.failed.remove(key);
    }

    /// Forgets all other keys.
    pub fn retain(&mut self, is_kept: impl Fn(&K) -> bool) {
        self.failed.retain(|key, _| is_kept(key));
    }

    /// The problem of the last attempt, if it failed.
    pub fn problem(&self, key: &K) -> Option<&str> {
        self.failed.get(key).map(|failure| failure.problem.as_str())
    }

    /// The time at which the next failed key is due.
    pub fn next(&self) -> Option<Instant> {
        self.failed.values().map(|failure| failure.next).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        initial: Duration::from_millis(100),
        cap: Duration::from_secs(1),
        tries: 7,
    };

    fn refusal(code: u16, retry_after_seconds: u32) -> kube::Error {
        let status = serde_json::json!({"code": code, "details": {"retryAfterSeconds": retry_after_seconds}});
        kube::Error::Api(serde_json::from_value(status).unwrap())
    }

    #[test]
    fn delays_double_up_to_the_cap_and_end() {
        let longest_ms = [100, 200, 400, 800, 1000, 1000];
        assert_eq!(BACKOFF.delays().count(), longest_ms.len());
        for (delay, longest) in BACKOFF.delays().zip(longest_ms.map(Duration::from_millis)) {
            assert!(
                (longest / 2..=longest).contains(&delay),
                "{delay:?} {longest:?}"
            );
        }
        let capped = Backoff {
            initial: Duration::from_mins(1),
            ..BACKOFF
        };
        assert!(capped.delays().all(|delay| delay <= capped.cap));
    }

    /// Seconds until a request succeeds that is refused once.
    async fn seconds_after(refused: kube::Error) -> std::ops::RangeInclusive<u64> {
        let start = tokio::time::Instant::now();
        let mut answers = vec![Ok(()), Err(refused)];
        BACKOFF
            .retry(|| std::future::ready(answers.pop().unwrap()))
            .await
            .unwrap();
        let waited = start.elapsed();
        waited.as_secs()..=waited.as_secs_f64().ceil() as u64
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_is_a_lower_bound() {
        for seconds in [0, 3, 30] {
            let waited = seconds_after(refusal(503, seconds)).await;
            assert!(waited.contains(&u64::from(seconds)), "{waited:?}");
        }
        let final_error = BACKOFF
            .retry(|| std::future::ready(Err::<(), _>(refusal(422, 3))))
            .await;
        assert!(final_error.is_err());
    }

    #[test]
    fn errors_are_classified_by_whether_a_retry_can_succeed() {
        let later = |seconds| Some(Duration::from_secs(seconds));
        for (error, expected) in [
            (refusal(409, 0), later(0)),
            (refusal(429, 7), later(7)),
            (refusal(503, 86_400), later(60)),
            (refusal(500, 0), later(0)),
            (kube::Error::Service("connection refused".into()), later(0)),
            (refusal(400, 0), None),
            (refusal(403, 5), None),
            (refusal(404, 0), None),
            (refusal(422, 0), None),
            (kube::Error::TlsRequired, None),
            (kube::Error::Service(NotLeading.into()), None),
        ] {
            assert_eq!(retry_after(&error), expected, "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_retried_until_it_succeeds_or_fails_finally() {
        let mut answers = vec![Ok(7), Err(refusal(409, 0)), Err(refusal(503, 2))];
        let answer = BACKOFF
            .retry(|| std::future::ready(answers.pop().unwrap()))
            .await;
        assert_eq!(answer.unwrap(), 7);

        for (code, expected_tries) in [(404, 1), (503, 7)] {
            let mut tries = 0;
            let mut request = || {
                tries += 1;
                std::future::ready(Err::<(), _>(refusal(code, 0)))
            };
            let error = BACKOFF.retry(&mut request).await.unwrap_err();
            assert!(
                matches!(&error, kube::Error::Api(status) if status.code == code),
                "{error}"
            );
            assert_eq!(tries, expected_tries, "{code}");
        }
    }

    #[test]
    fn the_delays_of_a_key_double_up_to_the_cap_and_end_with_success() {
        let (now, mut keys) = (Instant::now(), KeyedBackoff::new(BACKOFF));
        for (attempt, longest_ms) in [100, 200, 400, 800, 1000, 1000, 1000, 1000]
            .into_iter()
            .enumerate()
        {
            keys.failed("web", format!("problem {attempt}"), now);
            let (next, longest) = (keys.next().unwrap(), Duration::from_millis(longest_ms));
            assert!((longest / 2..=longest).contains(&(next - now)), "{attempt}");
            assert!(!keys.is_due(&"web", now) && keys.is_due(&"web", next));
        }
        assert_eq!(keys.problem(&"web"), Some("problem 7"));
        assert!(keys.is_due(&"api", now), "keys do not delay each other");
        keys.succeeded(&"web");
        assert!(keys.is_due(&"web", now) && keys.next().is_none());
    }

    #[test]
    fn keys_that_are_not_retained_are_due_again() {
        let (now, mut keys) = (Instant::now(), KeyedBackoff::new(BACKOFF));
        for key in ["kept", "gone"] {
            keys.failed(key, String::new(), now);
        }
        keys.retain(|key| *key == "kept");
        assert!(!keys.is_due(&"kept", now) && keys.is_due(&"gone", now));
    }
}

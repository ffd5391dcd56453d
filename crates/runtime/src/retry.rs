//! Retries of requests to the API server, with exponential backoff and jitter.
//!
//! The pause before try `n + 1` is `initial * 2^n`, at most `cap`, of which a random half to whole
//! is waited, so that clients that failed together do not retry together. A longer `Retry-After` of
//! the server wins.

use std::future::Future;
use std::time::Duration;

/// Whether a request can be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The same request can succeed after this pause.
    Retry {
        /// The server's `Retry-After`, or zero.
        after: Duration,
    },
    /// The request will fail again.
    Final,
}

/// Maximum of the server's `Retry-After`.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(1);

/// Classifies an error: connection errors, conflicts (409), overload (429) and server errors (5xx)
/// are retried.
///
/// After a conflict the request must be built again from the current object.
pub fn class(error: &kube::Error) -> Class {
    match error {
        kube::Error::Api(status) if matches!(status.code, 409 | 429 | 500..=599) => {
            let seconds = status
                .details
                .as_ref()
                .map_or(0, |details| details.retry_after_seconds);
            Class::Retry {
                after: Duration::from_secs(seconds.into()).min(LONGEST_RETRY_AFTER),
            }
        }
        kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => {
            Class::Retry {
                after: Duration::ZERO,
            }
        }
        _ => Class::Final,
    }
}

/// The pauses and the number of tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Pause after the first failure, before jitter.
    pub initial: Duration,
    /// Maximum pause, unless the server asks for a longer one.
    pub cap: Duration,
    /// Maximum number of tries, at least 1.
    pub tries: u32,
}

impl Default for Backoff {
    /// Six tries in about six seconds.
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(200),
            cap: Duration::from_secs(5),
            tries: 6,
        }
    }
}

impl Backoff {
    /// The pause after `failures` failed tries; `None` if there are no more tries. `random` is in
    /// 0..1.
    pub fn pause(&self, failures: u32, class: Class, random: f64) -> Option<Duration> {
        let Class::Retry { after } = class else {
            return None;
        };
        if failures >= self.tries {
            return None;
        }
        let doubled = 2u32.saturating_pow(failures.saturating_sub(1));
        let longest = self.initial.saturating_mul(doubled).min(self.cap);
        Some(
            longest
                .mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
                .max(after),
        )
    }

    /// Makes a request until it succeeds, fails finally, or all tries are used. Returns the last
    /// error.
    pub async fn retry<T, R>(&self, mut request: impl FnMut() -> R) -> kube::Result<T>
    where
        R: Future<Output = kube::Result<T>>,
    {
        let mut failures = 0;
        loop {
            let error = match request().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            failures += 1;
            let Some(pause) = self.pause(failures, class(&error), rand::random()) else {
                return Err(error);
            };
            tracing::debug!(%error, failures, ?pause, "trying again");
            tokio::time::sleep(pause).await;
        }
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

    fn check(failures: u32, class: Class, random: f64, expected_ms: Option<u64>) {
        let pause = BACKOFF.pause(failures, class, random);
        assert_eq!(
            pause,
            expected_ms.map(Duration::from_millis),
            "{failures} failures, {class:?}, {random}"
        );
    }

    #[test]
    fn pauses_double_up_to_the_cap_and_end() {
        let retry = Class::Retry {
            after: Duration::ZERO,
        };
        for (failures, longest_ms) in [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (6, 1000)]
        {
            check(failures, retry, 1.0, Some(longest_ms));
            check(failures, retry, 0.0, Some(longest_ms / 2));
        }
        check(7, retry, 1.0, None);
        check(u32::MAX, retry, 1.0, None);
    }

    #[test]
    fn retry_after_is_a_lower_bound() {
        check(
            1,
            Class::Retry {
                after: Duration::from_secs(3),
            },
            0.5,
            Some(3000),
        );
        check(
            3,
            Class::Retry {
                after: Duration::from_millis(10),
            },
            1.0,
            Some(400),
        );
        check(1, Class::Final, 0.5, None);
    }

    #[test]
    fn errors_are_classified_by_whether_a_retry_can_succeed() {
        let later = |seconds| Class::Retry {
            after: Duration::from_secs(seconds),
        };
        for (error, expected) in [
            (refusal(409, 0), later(0)),
            (refusal(429, 7), later(7)),
            (refusal(503, 86_400), later(60)),
            (refusal(500, 0), later(0)),
            (kube::Error::Service("connection refused".into()), later(0)),
            (refusal(400, 0), Class::Final),
            (refusal(403, 5), Class::Final),
            (refusal(404, 0), Class::Final),
            (refusal(422, 0), Class::Final),
            (kube::Error::TlsRequired, Class::Final),
        ] {
            assert_eq!(class(&error), expected, "{error}");
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
}

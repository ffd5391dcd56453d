//! Detects overload. A late response delays the creation of a pod, and after the API server's
//! timeout it is ignored, so pods are then admitted without review.
//!
//! The criterion is the delay of tasks that are ready to run, not the number of open requests: a
//! client keeps one open at no cost by sending its body slowly. `tower::load_shed` does not fit: it
//! refuses when a service is not ready, while reviews are decided at once, and the response needs
//! the UID of the review.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Delay of ready tasks beyond which pods are admitted without review. The API server waits for up
/// to thirty seconds, and a busy machine may hold a process up for a good part of a second.
const MAX_DELAY: Duration = Duration::from_secs(1);
const PERIOD: Duration = Duration::from_millis(20);

/// The last measured delay, in milliseconds. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Overload(Arc<AtomicU64>);

impl Overload {
    /// Measures the delay forever. A delay counts until the next measurement.
    pub async fn measure(self) {
        loop {
            let due = Instant::now() + PERIOD;
            tokio::time::sleep_until(due).await;
            let delay = due.elapsed().as_millis();
            let delay = u64::try_from(delay).unwrap_or(u64::MAX);
            self.0.store(delay, Ordering::Relaxed);
        }
    }

    pub fn is_active(&self) -> bool {
        Duration::from_millis(self.0.load(Ordering::Relaxed)) > MAX_DELAY
    }
}

#[cfg(test)]
impl Overload {
    /// An overload that is never measured.
    pub(crate) fn active() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_blocked_thread_is_an_overload_until_it_is_free() {
        let overload = Overload::default();
        let measuring = tokio::spawn(overload.clone().measure());
        let becomes = async |expected: bool| {
            let soon = async {
                while overload.is_active() != expected {
                    if expected {
                        std::thread::sleep(MAX_DELAY * 2);
                    }
                    tokio::time::sleep(PERIOD).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(30), soon).await
        };
        becomes(true).await.expect("the only thread was blocked");
        becomes(false).await.expect("it is free again");
        measuring.abort();
    }
}

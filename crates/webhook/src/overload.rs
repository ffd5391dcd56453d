//! Says when there is more to do than can be done in time. An answer that comes late holds up the creation of a pod, and after
//! the API server's patience it counts for nothing; so reviews are then admitted as they are, at once.
//!
//! Two signs: how many reviews are being answered, and how long the process lets a task wait that is ready to run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Reviews that are answered in full at the same time. At a tenth of a millisecond each this is an eighth of a second on one core.
const REVIEWS: usize = 1024;
/// Delay of ready tasks beyond which reviews are admitted as they are. The API server waits for up to
/// thirty seconds, and a busy machine may well hold a process up for a good part of one.
const DELAY: Duration = Duration::from_secs(1);
/// How often the delay is measured.
const PERIOD: Duration = Duration::from_millis(20);

/// The signs of overload. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Load(Arc<Signs>);

#[derive(Debug, Default)]
struct Signs {
    reviews: AtomicUsize,
    delay_ms: AtomicU64,
}

/// A review that is being answered, until it is dropped.
#[derive(Debug)]
pub struct Underway(Arc<Signs>);

impl Load {
    /// A review has come.
    pub fn begin(&self) -> Underway {
        self.0.reviews.fetch_add(1, Ordering::Relaxed);
        Underway(Arc::clone(&self.0))
    }

    /// Measures for ever how long ready tasks wait. A period that has begun too late counts at once; it is forgotten as soon as one
    /// begins in time.
    pub async fn measure(self) {
        loop {
            let due = Instant::now() + PERIOD;
            tokio::time::sleep_until(due).await;
            let delay = due.elapsed().as_millis();
            self.0.delay_ms.store(u64::try_from(delay).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }
}

impl Underway {
    /// Whether this review should be admitted as it is.
    pub fn is_too_much(&self) -> bool {
        self.0.reviews.load(Ordering::Relaxed) > REVIEWS
            || Duration::from_millis(self.0.delay_ms.load(Ordering::Relaxed)) > DELAY
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.reviews.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_reviews_are_answered_in_full_at_the_same_time() {
        let load = Load::default();
        let mut underway: Vec<_> = (0..REVIEWS).map(|_| load.begin()).collect();
        assert!(!underway.iter().any(Underway::is_too_much));
        let one_more = load.begin();
        assert!(one_more.is_too_much());
        underway.pop();
        assert!(!one_more.is_too_much());
    }

    #[tokio::test]
    async fn a_process_that_lets_its_tasks_wait_has_too_much_to_do() {
        let load = Load::default();
        let measuring = tokio::spawn(load.clone().measure());
        let review = load.begin();
        let is_too_much_soon = async |expected: bool| {
            let soon = async {
                while review.is_too_much() != expected {
                    if expected {
                        std::thread::sleep(DELAY * 2);
                    }
                    tokio::time::sleep(PERIOD).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(30), soon).await
        };
        is_too_much_soon(true).await.expect("the only thread was held up");
        is_too_much_soon(false).await.expect("it is free again");
        measuring.abort();
    }
}

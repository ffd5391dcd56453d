//! Says when there is more to do than can be done in time. An answer that comes late holds up the
//! creation of a pod, and after the API server's patience it counts for nothing; so reviews are
//! then admitted as they are, at once.
//!
//! The sign is how long the process lets a task wait that is ready to run. How many requests are
//! open is none: whoever sends a body slowly, or not at all, keeps one open at no expense, and must
//! not keep pods from being sized.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Delay of ready tasks beyond which reviews are admitted as they are. The API server waits for up
/// to thirty seconds, and a busy machine may well hold a process up for a good part of one.
const DELAY: Duration = Duration::from_secs(1);
/// How often the delay is measured.
const PERIOD: Duration = Duration::from_millis(20);

/// The sign of overload, in milliseconds. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Load(Arc<AtomicU64>);

impl Load {
    /// Measures for ever how long ready tasks wait. A period that has begun too late counts at
    /// once; it is forgotten as soon as one begins in time.
    pub async fn measure(self) {
        loop {
            let due = Instant::now() + PERIOD;
            tokio::time::sleep_until(due).await;
            let delay = due.elapsed().as_millis();
            self.0
                .store(u64::try_from(delay).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Whether reviews should be admitted as they are.
    pub fn is_too_much(&self) -> bool {
        Duration::from_millis(self.0.load(Ordering::Relaxed)) > DELAY
    }
}

#[cfg(test)]
impl Load {
    /// More than can be done.
    pub(crate) fn too_much() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_that_lets_its_tasks_wait_has_too_much_to_do() {
        let load = Load::default();
        let measuring = tokio::spawn(load.clone().measure());
        let is_too_much_soon = async |expected: bool| {
            let soon = async {
                while load.is_too_much() != expected {
                    if expected {
                        std::thread::sleep(DELAY * 2);
                    }
                    tokio::time::sleep(PERIOD).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(30), soon).await
        };
        is_too_much_soon(true)
            .await
            .expect("the only thread was held up");
        is_too_much_soon(false).await.expect("it is free again");
        measuring.abort();
    }
}

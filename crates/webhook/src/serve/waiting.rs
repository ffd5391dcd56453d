//! Requests whose bodies have not come yet: no more than so many at a time. Of more, the one goes
//! that has waited longest, so that those who never send what they promise are in nobody's way but
//! their own.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// The requests that wait. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    most: usize,
    requests: Arc<Mutex<Requests>>,
}

#[derive(Debug, Default)]
struct Requests {
    /// Of the next one.
    number: u64,
    /// In the order in which they came.
    open: BTreeMap<u64, CancellationToken>,
}

/// A request that waits, until it is dropped.
struct Place<'a> {
    requests: &'a Mutex<Requests>,
    number: u64,
    sent_away: CancellationToken,
}

impl Waiting {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            requests: Arc::default(),
        }
    }

    /// Waits for what a request brings; none if others needed its place.
    pub(super) async fn wait<T>(&self, body: impl Future<Output = T>) -> Option<T> {
        let place = self.place();
        place.sent_away.run_until_cancelled(body).await
    }

    fn place(&self) -> Place<'_> {
        let mut requests = lock(&self.requests);
        if requests.open.len() >= self.most
            && let Some((_, longest)) = requests.open.pop_first()
        {
            longest.cancel();
        }
        let (number, sent_away) = (requests.number, CancellationToken::new());
        requests.number = number.wrapping_add(1);
        requests.open.insert(number, sent_away.clone());
        Place {
            requests: &self.requests,
            number,
            sent_away,
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(self.requests).open.remove(&self.number);
    }
}

fn lock(requests: &Mutex<Requests>) -> MutexGuard<'_, Requests> {
    requests.lock()
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn the_one_that_has_waited_longest_makes_room() {
        let waiting = Waiting::new(2);
        let mut open: Vec<_> = (0..3)
            .map(|_| Box::pin(waiting.wait(pending::<()>())))
            .collect();
        let ended: Vec<bool> = open
            .iter_mut()
            .map(|wait| wait.now_or_never().is_some())
            .collect();
        assert_eq!(
            ended,
            [false, false, false],
            "the first one learns of it at its next turn"
        );
        assert_eq!(open.remove(0).now_or_never(), Some(None));
        assert_eq!(open[0].as_mut().now_or_never(), None, "the others go on");
        drop(open);
        assert_eq!(waiting.wait(ready("all")).now_or_never(), Some(Some("all")));
        assert!(lock(&waiting.requests).open.is_empty());
    }
}

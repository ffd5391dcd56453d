//! Handshakes in progress. Above the limit the oldest is dropped: a working client completes its
//! handshake long before that.

use std::collections::VecDeque;

use tokio::task::AbortHandle;

/// Handshakes in progress, oldest first. May include finished ones.
pub(super) struct Handshakes {
    most: usize,
    under_way: VecDeque<AbortHandle>,
}

impl Handshakes {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            under_way: VecDeque::new(),
        }
    }

    pub(super) fn begin(&mut self, handshake: impl Future<Output = ()> + Send + 'static) {
        if self.under_way.len() >= self.most {
            self.under_way.retain(|handshake| !handshake.is_finished());
        }
        if self.under_way.len() >= self.most {
            self.end_oldest();
        }
        self.under_way
            .push_back(tokio::spawn(handshake).abort_handle());
    }

    /// Drops the oldest handshake.
    pub(super) fn end_oldest(&mut self) {
        if let Some(oldest) = self.under_way.pop_front() {
            oldest.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    /// Starts a handshake that lasts until the returned sender is dropped or used.
    fn begin(handshakes: &mut Handshakes) -> oneshot::Sender<()> {
        let (end, ended) = oneshot::channel();
        handshakes.begin(async move { drop(ended.await) });
        end
    }

    #[tokio::test]
    async fn the_oldest_ends_when_there_are_too_many() {
        let mut handshakes = Handshakes::new(2);
        let (mut first, second) = (begin(&mut handshakes), begin(&mut handshakes));
        let third = begin(&mut handshakes);
        first.closed().await;
        assert!(!second.is_closed() && !third.is_closed());
    }

    #[tokio::test]
    async fn those_that_have_ended_are_none() {
        let mut handshakes = Handshakes::new(2);
        let first = begin(&mut handshakes);
        for _ in 0..10 {
            drop(begin(&mut handshakes));
            while !handshakes.under_way.iter().any(AbortHandle::is_finished) {
                tokio::task::yield_now().await;
            }
        }
        assert!(!first.is_closed());
        assert!(handshakes.under_way.len() <= 2);
    }
}

//! Handshakes under way, which are for anybody to begin. When there are too many the oldest ends:
//! an honest client has ended its own long before that many others have come.

use std::collections::VecDeque;

use tokio::task::AbortHandle;

/// Those under way, the oldest first. Some of them may have ended.
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

    /// Begins one more.
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

    /// Ends the one that began first.
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

    /// Begins one that goes on until what is given back is dropped or told.
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

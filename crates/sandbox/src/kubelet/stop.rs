//! Stop signals from a pod to its containers.

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Deadlines of the sidecars and of all other containers.
#[derive(Debug)]
pub(super) struct StopSignals {
    main: watch::Sender<Option<Instant>>,
    pub(super) sidecars: watch::Sender<Option<Instant>>,
}

impl StopSignals {
    pub(super) fn new() -> Self {
        Self {
            main: watch::Sender::new(None),
            sidecars: watch::Sender::new(None),
        }
    }

    /// Stops everything by this time; an earlier deadline remains.
    pub(super) fn stop_by(&self, deadline: Instant) {
        advance(&self.main, deadline);
    }

    /// Stops the sidecars by this time, or by the pod's deadline if that is earlier.
    pub(super) fn stop_sidecars_by(&self, deadline: Instant) {
        advance(
            &self.sidecars,
            self.requested().map_or(deadline, |pod| pod.min(deadline)),
        );
    }

    pub(super) fn for_containers(&self) -> Deadline {
        self.main.subscribe()
    }

    /// Deadline of the pod, if it has to stop.
    pub(super) fn requested(&self) -> Option<Instant> {
        *self.main.borrow()
    }

    pub(super) async fn wait(&self) {
        stop_requested(&mut self.main.subscribe()).await;
    }
}

fn advance(deadlines: &watch::Sender<Option<Instant>>, deadline: Instant) {
    deadlines.send_if_modified(|current| {
        let is_earlier = current.is_none_or(|current| deadline < current);
        if is_earlier {
            *current = Some(deadline);
        }
        is_earlier
    });
}

/// Deadline of a container: `None` while it may run.
pub(super) type Deadline = watch::Receiver<Option<Instant>>;

pub(super) async fn stop_requested(deadline: &mut Deadline) -> Instant {
    match deadline.wait_for(Option::is_some).await {
        Ok(deadline) => deadline.unwrap_or_else(Instant::now),
        Err(_) => Instant::now(),
    }
}

/// Waits until `latest`, or until the deadline if that is earlier, also when it is set later.
pub(super) async fn stop_due(deadline: &mut Deadline, latest: Option<Instant>) {
    loop {
        let current = *deadline.borrow_and_update();
        let until = current.into_iter().chain(latest).min();
        let wait = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = wait => return,
            changed = deadline.changed() => if changed.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[test]
    fn a_deadline_can_only_become_earlier() {
        let stop = StopSignals::new();
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(stop.requested(), None);
        for (next, expected) in [(30, 30), (60, 30), (5, 5)] {
            stop.stop_by(after(next));
            assert_eq!(stop.requested(), Some(after(expected)));
        }
    }

    #[tokio::test]
    async fn an_earlier_deadline_ends_a_wait() {
        let stop = StopSignals::new();
        let in_an_hour = Instant::now() + Duration::from_hours(1);
        stop.stop_by(in_an_hour);
        let mut deadline = stop.for_containers();
        let wait = stop_due(&mut deadline, Some(in_an_hour));
        let earlier = async { stop.stop_by(Instant::now()) };
        let both = async { tokio::join!(wait, earlier) };
        assert!(timeout(Duration::from_mins(1), both).await.is_ok());
    }

    #[tokio::test]
    async fn a_wait_without_deadline_ends_at_its_own_time() {
        let mut deadline = StopSignals::new().for_containers();
        let wait = stop_due(&mut deadline, Some(Instant::now()));
        assert!(timeout(Duration::from_mins(1), wait).await.is_ok());
    }
}

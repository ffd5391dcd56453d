//! StopSignals to end, from a pod to its containers.

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// StopSignals to end: one for the sidecars, one for all others.
#[derive(Debug)]
pub(super) struct StopSignals {
    main: watch::Sender<Option<Instant>>,
    sidecars: watch::Sender<Option<Instant>>,
}

impl StopSignals {
    /// Everything may run.
    pub(super) fn new() -> Self {
        Self {
            main: watch::Sender::new(None),
            sidecars: watch::Sender::new(None),
        }
    }

    /// Everything must be gone at that time; an earlier order stands.
    pub(super) fn stop_by(&self, deadline: Instant) {
        earlier(&self.main, deadline);
    }

    /// The sidecars must be gone at that time, or when the pod must.
    pub(super) fn stop_sidecars_by(&self, deadline: Instant) {
        earlier(
            &self.sidecars,
            self.requested()
                .map_or(deadline, |given| given.min(deadline)),
        );
    }

    /// What sidecars listen to.
    pub(super) fn for_sidecars(&self) -> Deadline {
        self.sidecars.subscribe()
    }

    /// What all other containers listen to.
    pub(super) fn for_containers(&self) -> Deadline {
        self.main.subscribe()
    }

    /// Whether the pod was ordered to end.
    pub(super) fn requested(&self) -> Option<Instant> {
        *self.main.borrow()
    }

    /// Waits until it is.
    pub(super) async fn wait(&self) {
        stop_requested(&mut self.main.subscribe()).await;
    }
}

fn earlier(order: &watch::Sender<Option<Instant>>, deadline: Instant) {
    order.send_if_modified(|order| {
        let sooner = order.is_none_or(|order| deadline < order);
        if sooner {
            *order = Some(deadline);
        }
        sooner
    });
}

/// When a container must be gone: `None` while it may run.
pub(super) type Deadline = watch::Receiver<Option<Instant>>;

/// Waits for the order to end.
pub(super) async fn stop_requested(deadline: &mut Deadline) -> Instant {
    match deadline.wait_for(Option::is_some).await {
        Ok(ordered) => ordered.unwrap_or_else(Instant::now),
        Err(_) => Instant::now(),
    }
}

/// Returns at `latest`, or earlier when an order says so, however late that order comes.
pub(super) async fn stop_due(deadline: &mut Deadline, latest: Option<Instant>) {
    loop {
        let ordered = *deadline.borrow_and_update();
        let until = ordered.into_iter().chain(latest).min();
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

    use super::*;

    #[test]
    fn an_order_can_only_become_more_urgent() {
        let stop = StopSignals::new();
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(stop.requested(), None);
        for (order, expected) in [(30, 30), (60, 30), (5, 5)] {
            stop.stop_by(after(order));
            assert_eq!(stop.requested(), Some(after(expected)));
        }
    }

    #[tokio::test]
    async fn a_late_order_cuts_a_wait_short() {
        let stop = StopSignals::new();
        let in_an_hour = Instant::now() + Duration::from_hours(1);
        stop.stop_by(in_an_hour);
        let mut deadline = stop.for_containers();
        let wait = stop_due(&mut deadline, Some(in_an_hour));
        let ((), ()) = tokio::join!(wait, async { stop.stop_by(Instant::now()) });
    }

    #[tokio::test]
    async fn a_wait_without_order_ends_at_its_own_time() {
        stop_due(
            &mut StopSignals::new().for_containers(),
            Some(Instant::now()),
        )
        .await;
    }
}

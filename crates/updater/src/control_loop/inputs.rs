//! The inputs of the control loop: three views, the feed and the clocks.

use std::sync::Arc;

use rollout::{
    ClockReading, HealthReadings, PausePolicy, Preconditions, Snapshot, WebhookLiveness,
    check_preconditions, is_current,
};
use runtime::{ApiServerClock, Hold};
use tokio::sync::watch;
use tokio::time::Instant;
use view::{ObjectKey, View, Vpa};

use crate::feed_overlay::FeedOverlay;
use crate::node_load::NodeLoad;

pub(crate) struct Inputs {
    pub(crate) view: watch::Receiver<View>,
    /// The stop switch.
    pub(crate) control: watch::Receiver<View>,
    /// The webhook's Lease.
    pub(crate) webhook: watch::Receiver<View>,
    pub(crate) feed: FeedOverlay,
    pub(crate) node_load: NodeLoad,
    pub(crate) another_updater: Hold,
    /// The API server's time. Leases, ages of pods and maintenance windows do not depend on the
    /// node's own clock.
    pub(crate) clock: ApiServerClock,
    /// The zero of the monotonic clock.
    pub(crate) started: Instant,
    pub(crate) liveness: WebhookLiveness,
}

impl Inputs {
    pub(super) fn now(&self) -> ClockReading {
        ClockReading {
            wall: self.clock.timestamp(),
            monotonic: self.started.elapsed(),
        }
    }

    /// Whether all watches of workloads are current.
    pub(super) fn is_view_current(&self) -> bool {
        is_current(&self.view.borrow())
    }

    pub(super) fn vpa(&self, key: &ObjectKey) -> Option<Arc<Vpa>> {
        self.view.borrow().vpas.get(key).cloned()
    }

    /// Calls `f` with the latest state, and marks it as seen. Returns the results of `f`, and until
    /// when the webhook counts as alive, where that matters.
    pub(super) fn with_snapshot<T, P>(
        &mut self,
        policy: &PausePolicy,
        health: &HealthReadings,
        now: ClockReading,
        f: impl FnOnce(&Snapshot<'_>) -> (T, P),
    ) -> (T, P, Option<Instant>) {
        let view = self.view.borrow_and_update();
        let control = self.control.borrow_and_update();
        let webhook = self.webhook.borrow_and_update();
        let preconditions = Preconditions {
            view: &view,
            control: &control,
            webhook: &webhook,
            another_updater: self.another_updater.is_held(),
        };
        let checked = check_preconditions(&preconditions, policy, &mut self.liveness, now);
        let node_load = self.node_load.take_new();
        let snapshot = Snapshot {
            view: &view,
            recommendations: self.feed.recommendations_for(&view),
            pause: checked.err(),
            health,
            node_load: node_load.as_deref(),
        };
        let (result, pause) = f(&snapshot);
        let alive_until = checked.ok().flatten().map(|until| self.started + until);
        (result, pause, alive_until)
    }
}

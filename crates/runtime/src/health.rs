//! Liveness and readiness of the process.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::duration::GoDuration;

/// The last activity of the program's main loop; upstream's `HealthCheck`. Clones share it.
///
/// Nothing is expected before [`Activity::expect_every`], so that a standby replica is alive.
#[derive(Debug, Clone, Default)]
pub struct Activity(Arc<Mutex<Option<Expectation>>>);

#[derive(Debug, Clone, Copy)]
struct Expectation {
    timeout: Duration,
    last: Instant,
}

impl Activity {
    /// Expects activity at least once per `timeout`, starting at `now`. Upstream uses five times
    /// the loop's interval.
    pub fn expect_every(&self, timeout: Duration, now: Instant) {
        *self.0.lock() = Some(Expectation { timeout, last: now });
    }

    /// Expects no more activity: the replica is a standby again.
    pub fn expect_nothing(&self) {
        *self.0.lock() = None;
    }

    pub fn record(&self, now: Instant) {
        if let Some(expectation) = self.0.lock().as_mut() {
            expectation.last = now;
        }
    }

    /// Fails with upstream's text if the last activity is older than the timeout.
    pub fn check(&self, now: Instant) -> Result<(), String> {
        let Some(Expectation { timeout, last }) = *self.0.lock() else {
            return Ok(());
        };
        let quiet = now.saturating_duration_since(last);
        if quiet <= timeout {
            return Ok(());
        }
        let quiet = GoDuration(Duration::from_millis(quiet.as_millis() as u64));
        Err(format!("Error: last activity more than {quiet} ago"))
    }
}

/// The readiness conditions of a program. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<BTreeMap<String, ConditionStatus>>>);

#[derive(Debug, Clone)]
enum ConditionStatus {
    Ready,
    /// Ready, with a remark.
    ReadyBut(String),
    Missing(String),
}

/// One readiness condition. Dropping it keeps its last status.
#[derive(Debug)]
pub struct Condition {
    name: String,
    all: Readiness,
}

impl Readiness {
    /// Adds a condition that is not ready yet.
    pub fn condition(&self, name: impl Into<String>) -> Condition {
        let condition = Condition {
            name: name.into(),
            all: self.clone(),
        };
        condition.missing("not yet");
        condition
    }

    /// The conditions that are not ready, as `name: reason`; empty when the program is ready.
    pub fn missing(&self) -> Vec<String> {
        let states = self.0.lock();
        let missing = states.iter().filter_map(|(name, state)| match state {
            ConditionStatus::Ready | ConditionStatus::ReadyBut(_) => None,
            ConditionStatus::Missing(reason) => Some(format!("{name}: {reason}")),
        });
        missing.collect()
    }

    /// All conditions, in the format of Kubernetes' own servers.
    pub fn report(&self) -> String {
        let states = self.0.lock();
        let lines = states.iter().map(|(name, state)| match state {
            ConditionStatus::Ready => format!("[+]{name} ok\n"),
            ConditionStatus::ReadyBut(remark) => format!("[+]{name} ok: {remark}\n"),
            ConditionStatus::Missing(reason) => format!("[-]{name} failed: {reason}\n"),
        });
        lines.collect()
    }
}

impl Condition {
    pub fn ready(&self) {
        self.set(ConditionStatus::Ready);
    }

    pub fn ready_but(&self, remark: impl Into<String>) {
        self.set(ConditionStatus::ReadyBut(remark.into()));
    }

    pub fn missing(&self, reason: impl Into<String>) {
        self.set(ConditionStatus::Missing(reason.into()));
    }

    fn set(&self, state: ConditionStatus) {
        self.all.0.lock().insert(self.name.clone(), state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activity_is_due_only_once_it_is_expected() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let activity = Activity::default();
        activity.record(start);
        assert_eq!(activity.check(after(1000)), Ok(()));

        activity.expect_every(Duration::from_mins(5), after(1000));
        assert_eq!(activity.check(after(1300)), Ok(()));
        assert_eq!(
            activity.check(after(1301)),
            Err("Error: last activity more than 5m1s ago".to_owned())
        );

        activity.record(after(1302));
        assert_eq!(activity.check(after(1303)), Ok(()));

        activity.expect_nothing();
        assert_eq!(activity.check(after(5000)), Ok(()));
    }

    #[test]
    fn readiness_lists_what_is_missing() {
        let readiness = Readiness::default();
        assert!(readiness.missing().is_empty());
        let (pods, leader) = (
            readiness.condition("pod watch"),
            readiness.condition("leader"),
        );
        assert_eq!(
            readiness.missing(),
            ["leader: not yet", "pod watch: not yet"]
        );
        pods.ready();
        leader.ready();
        assert!(readiness.missing().is_empty());
        pods.missing("watch ended");
        assert_eq!(readiness.missing(), ["pod watch: watch ended"]);
        leader.ready_but("alone");
        assert_eq!(readiness.missing(), ["pod watch: watch ended"]);
        assert_eq!(
            readiness.report(),
            "[+]leader ok: alone\n[-]pod watch failed: watch ended\n"
        );
    }
}

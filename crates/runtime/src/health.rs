//! Whether the process is alive and whether it is ready, as values that the parts of a program
//! hold.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::duration::GoDuration;

/// When the program's main loop last did something; upstream's `HealthCheck`. Clones share one
/// record.
///
/// Nothing is expected before [`Activity::expect_every`], so that a standby waiting for leadership
/// is alive.
#[derive(Debug, Clone, Default)]
pub struct Activity(Arc<Mutex<Option<Expectation>>>);

#[derive(Debug, Clone, Copy)]
struct Expectation {
    timeout: Duration,
    last: Instant,
}

impl Activity {
    /// From `now` on, activity is due at least once per `timeout`. Upstream takes five times the
    /// loop's interval.
    pub fn expect_every(&self, timeout: Duration, now: Instant) {
        *lock(&self.0) = Some(Expectation { timeout, last: now });
    }

    /// Nothing is due any more: this is a standby again.
    pub fn expect_nothing(&self) {
        *lock(&self.0) = None;
    }

    /// The loop did something at `now`.
    pub fn record(&self, now: Instant) {
        if let Some(expectation) = lock(&self.0).as_mut() {
            expectation.last = now;
        }
    }

    /// `Err` with upstream's text when nothing happened for longer than allowed.
    pub fn check(&self, now: Instant) -> Result<(), String> {
        let Some(Expectation { timeout, last }) = *lock(&self.0) else {
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

/// What must hold before the program serves. Clones share one set of conditions.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<BTreeMap<String, ConditionStatus>>>);

#[derive(Debug, Clone)]
enum ConditionStatus {
    Ready,
    /// With a remark.
    ReadyBut(String),
    Missing(String),
}

/// One thing that must hold, kept by the part of the program that knows. Dropping it does not
/// change what it last said.
#[derive(Debug)]
pub struct Condition {
    name: String,
    all: Readiness,
}

impl Readiness {
    /// Adds a condition that does not hold yet.
    pub fn condition(&self, name: impl Into<String>) -> Condition {
        let condition = Condition {
            name: name.into(),
            all: self.clone(),
        };
        condition.missing("not yet");
        condition
    }

    /// What is missing, as `name: reason`; empty when the program is ready.
    pub fn missing(&self) -> Vec<String> {
        let states = lock(&self.0);
        let missing = states.iter().filter_map(|(name, state)| match state {
            ConditionStatus::Ready | ConditionStatus::ReadyBut(_) => None,
            ConditionStatus::Missing(reason) => Some(format!("{name}: {reason}")),
        });
        missing.collect()
    }

    /// All conditions with what is to be said of them, in the form of Kubernetes' own servers.
    pub fn report(&self) -> String {
        let states = lock(&self.0);
        let lines = states.iter().map(|(name, state)| match state {
            ConditionStatus::Ready => format!("[+]{name} ok\n"),
            ConditionStatus::ReadyBut(remark) => format!("[+]{name} ok: {remark}\n"),
            ConditionStatus::Missing(reason) => format!("[-]{name} failed: {reason}\n"),
        });
        lines.collect()
    }
}

impl Condition {
    /// The condition holds.
    pub fn ready(&self) {
        self.set(ConditionStatus::Ready);
    }

    /// The condition holds, but something should be known about it.
    pub fn ready_but(&self, remark: impl Into<String>) {
        self.set(ConditionStatus::ReadyBut(remark.into()));
    }

    /// The condition does not hold, and why.
    pub fn missing(&self, reason: impl Into<String>) {
        self.set(ConditionStatus::Missing(reason.into()));
    }

    fn set(&self, state: ConditionStatus) {
        lock(&self.all.0).insert(self.name.clone(), state);
    }
}

/// The values behind these locks are whole after every statement, so a panic elsewhere leaves
/// nothing half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

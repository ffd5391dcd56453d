//! Global pauses: the stop switch exists, another updater runs, the webhook is not alive, or the view
//! is not current.

use std::time::Duration;

use jiff::Timestamp;
use view::{ObjectKey, View};

use crate::clock::ClockReading;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PausePolicy {
    /// The webhook's Lease, and the time after which it expires; `None` if it does not matter.
    pub webhook_lease: Option<(ObjectKey, Duration)>,
    /// The stop switch: actions are paused while this `ConfigMap` exists.
    pub stop_config_map: Option<ObjectKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PauseReason {
    Stopped,
    /// Another updater runs: both together would exceed the eviction tolerance.
    AnotherUpdater,
    /// The webhook's Lease is missing or was not read: evicted pods would come back with their old size.
    WebhookLeaseMissing,
    /// The webhook's Lease is expired: the same.
    WebhookLeaseExpired,
    /// A watch has not delivered its first list, or is interrupted: changes may be missing.
    ViewStale,
}

impl PauseReason {
    /// The reason as a label of metrics and a field of log lines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::AnotherUpdater => "another_updater",
            Self::WebhookLeaseMissing | Self::WebhookLeaseExpired => "webhook_lease_expired",
            Self::ViewStale => "view_stale",
        }
    }

    /// Whether acts of relief go on, see [`crate::ActionReason::is_relief`]. They need no webhook.
    pub fn allows_relief(self) -> bool {
        matches!(self, Self::WebhookLeaseMissing | Self::WebhookLeaseExpired)
    }
}

/// The last renewal of the webhook's Lease. The Lease expires by both clocks: it is compared with
/// the wall clock, and a renewal counts for at most the timeout by the monotonic clock, whatever
/// happens to the wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct WebhookLiveness {
    /// The time of the renewal, and of its first observation.
    renewal: Option<(Timestamp, Duration)>,
}

impl WebhookLiveness {
    /// Until when the Lease is valid by the monotonic clock; `None` if it is expired.
    fn alive_until(
        &mut self,
        renewed_at: Timestamp,
        timeout: Duration,
        now: ClockReading,
    ) -> Option<Duration> {
        let observed_at = match self.renewal {
            Some((known, at)) if known == renewed_at => at,
            _ => now.monotonic,
        };
        self.renewal = Some((renewed_at, observed_at));
        let expires_at = renewed_at.checked_add(timeout).ok()?;
        let left = Duration::try_from(expires_at.duration_since(now.wall)).ok()?;
        let until = now
            .monotonic
            .saturating_add(left)
            .min(observed_at.saturating_add(timeout));
        (until > now.monotonic).then_some(until)
    }
}

/// The views that preconditions are checked on.
pub struct Preconditions<'a> {
    /// Workloads, VPA objects and their constraints.
    pub view: &'a View,
    /// The stop switch.
    pub control: &'a View,
    pub webhook: &'a View,
    /// Whether another updater runs; `None` before the first look.
    pub another_updater: Option<bool>,
}

/// Whether all watches of a view have delivered their lists, and none is interrupted.
pub fn is_current(view: &View) -> bool {
    view.is_synced() && view.stale_since().is_none()
}

/// Checks the preconditions of all actions. Returns until when they hold by the monotonic clock if
/// nothing changes, `None` without an end.
pub fn check_preconditions(
    preconditions: &Preconditions<'_>,
    policy: &PausePolicy,
    liveness: &mut WebhookLiveness,
    now: ClockReading,
) -> Result<Option<Duration>, PauseReason> {
    let (view, control) = (preconditions.view, preconditions.control);
    let stop = policy.stop_config_map.as_ref();
    if stop.is_some_and(|key| control.stop_switches.get(key).is_some()) {
        return Err(PauseReason::Stopped);
    }
    if preconditions.another_updater == Some(true) {
        return Err(PauseReason::AnotherUpdater);
    }
    if !is_current(view) || !is_current(control) || preconditions.another_updater.is_none() {
        return Err(PauseReason::ViewStale);
    }
    let Some((key, timeout)) = &policy.webhook_lease else {
        return Ok(None);
    };
    let lease = preconditions.webhook.webhook_leases.get(key);
    let lease = lease.ok_or(PauseReason::WebhookLeaseMissing)?;
    let renewed_at = lease.created_at.max(lease.renewed_at);
    let until = renewed_at.and_then(|at| liveness.alive_until(at, *timeout, now));
    until.map(Some).ok_or(PauseReason::WebhookLeaseExpired)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use view::{Resource, StopSwitch, WebhookLease};

    use super::*;

    const TIMEOUT: Duration = Duration::from_mins(1);

    fn wall(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).expect("in range")
    }

    fn policy() -> PausePolicy {
        PausePolicy {
            webhook_lease: Some((ObjectKey::new("system", "webhook"), TIMEOUT)),
            stop_config_map: Some(ObjectKey::new("system", "stop")),
        }
    }

    fn webhook(created: i64, renewed: Option<i64>) -> View {
        let mut view = View::default();
        let key = ObjectKey::new("system", "webhook");
        view.webhook_leases.apply(Arc::new(WebhookLease {
            key,
            created_at: Some(wall(created)),
            renewed_at: renewed.map(wall),
        }));
        view
    }

    /// Checks the preconditions at some times, each by both clocks, in seconds.
    fn check(webhooks: &[(&View, i64, u64)], expected: &[Result<u64, PauseReason>]) {
        let (view, start) = (View::default(), Duration::from_hours(1));
        let mut liveness = WebhookLiveness::default();
        let found = webhooks.iter().map(|(webhook, at, monotonic)| {
            let preconditions = Preconditions {
                view: &view,
                control: &view,
                webhook,
                another_updater: Some(false),
            };
            let now = ClockReading {
                wall: wall(*at),
                monotonic: start + Duration::from_secs(*monotonic),
            };
            let until = check_preconditions(&preconditions, &policy(), &mut liveness, now);
            until.map(|until| until.map_or(0, |until| until.saturating_sub(start).as_secs()))
        });
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    /// The reason of a pause at second 0, while the webhook is alive.
    fn pause(view: &View, control: &View) -> Option<PauseReason> {
        pause_beside(Some(false), view, control)
    }

    /// The same, where another updater runs or not, or it is not known.
    fn pause_beside(
        another_updater: Option<bool>,
        view: &View,
        control: &View,
    ) -> Option<PauseReason> {
        let preconditions = Preconditions {
            view,
            control,
            webhook: &webhook(0, None),
            another_updater,
        };
        let now = ClockReading {
            wall: wall(0),
            monotonic: Duration::ZERO,
        };
        let mut liveness = WebhookLiveness::default();
        check_preconditions(&preconditions, &policy(), &mut liveness, now).err()
    }

    #[test]
    fn the_lease_is_valid_for_the_timeout_after_its_creation_or_renewal() {
        let none = Err(PauseReason::WebhookLeaseExpired);
        let missing = Err(PauseReason::WebhookLeaseMissing);
        check(&[(&View::default(), 0, 0)], &[missing]);
        let created = webhook(0, None);
        check(&[(&created, 10, 0), (&created, 60, 50)], &[Ok(50), none]);
        let renewed = [100, 110].map(|second| webhook(0, Some(second)));
        let checks = [(&renewed[0], 130, 0), (&renewed[1], 130, 1)];
        check(&checks, &[Ok(30), Ok(41)]);
    }

    #[test]
    fn a_jump_of_the_clock_never_prolongs_the_lease() {
        let (lease, none) = (webhook(0, None), Err(PauseReason::WebhookLeaseExpired));
        let back = [(&lease, 0, 0), (&lease, -3600, 30), (&lease, -3600, 60)];
        check(&back, &[Ok(60), Ok(60), none]);
        check(&[(&lease, 0, 0), (&lease, 3600, 1)], &[Ok(60), none]);
    }

    #[test]
    fn a_pause_ends_only_when_every_watch_is_current() {
        let set = |view: &mut View, resource: Resource, synced: bool, is_stale: bool| {
            let freshness = view.freshness.entry(resource).or_default();
            freshness.synced = synced;
            freshness.stale_since = is_stale.then(|| wall(0));
        };
        let (mut view, current) = (View::default(), View::default());
        let stale = Some(PauseReason::ViewStale);
        set(&mut view, Resource::Pods, false, false);
        assert_eq!(pause(&view, &current), stale, "no list was read");
        set(&mut view, Resource::Pods, true, true);
        set(&mut view, Resource::DisruptionBudgets, true, true);
        assert_eq!(pause(&view, &current), stale);
        set(&mut view, Resource::Pods, true, false);
        assert_eq!(
            pause(&view, &current),
            stale,
            "the budgets may have changed"
        );
        assert_eq!(pause(&current, &view), stale, "the switch may be on");
        set(&mut view, Resource::DisruptionBudgets, true, false);
        assert_eq!(pause(&view, &view), None);
    }

    #[test]
    fn another_updater_pauses_everything() {
        let view = View::default();
        for (another, expected) in [
            (Some(true), Some(PauseReason::AnotherUpdater)),
            (None, Some(PauseReason::ViewStale)),
            (Some(false), None),
        ] {
            assert_eq!(pause_beside(another, &view, &view), expected, "{another:?}");
        }
    }

    #[test]
    fn the_stop_switch_pauses_everything() {
        let mut control = View::default();
        for (name, expected) in [("other", None), ("stop", Some(PauseReason::Stopped))] {
            let key = ObjectKey::new("system", name);
            control.stop_switches.apply(Arc::new(StopSwitch { key }));
            assert_eq!(pause(&View::default(), &control), expected, "{name}");
        }
    }
}

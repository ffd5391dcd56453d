//! Whether anything may be done at all, and if not, why.

use std::time::Duration;

use jiff::Timestamp;
use view::{ObjectKey, View};

use super::PauseReason;
use super::clock::ClockReading;

/// When nothing is done at all, with every name filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PausePolicy {
    /// The webhook's Lease and how long it stands; none where it does not matter.
    pub webhook_lease: Option<(ObjectKey, Duration)>,
    /// The `ConfigMap` that stops everything, where there is such a switch.
    pub stop_config_map: Option<ObjectKey>,
}

/// When the webhook was last heard. Both clocks count: the cluster's times are compared with the
/// wall clock, and nothing that was heard stands for longer than the timeout by the steady one,
/// whatever becomes of the wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct WebhookLiveness {
    heard: Option<(Timestamp, Duration)>,
}

impl WebhookLiveness {
    /// Until when the webhook is taken to live, by the steady clock; nothing when it is not.
    fn alive_until(
        &mut self,
        last: Timestamp,
        timeout: Duration,
        now: ClockReading,
    ) -> Option<Duration> {
        let heard_at = match self.heard {
            Some((heard, at)) if heard == last => at,
            _ => now.monotonic,
        };
        self.heard = Some((last, heard_at));
        let left =
            Duration::try_from(last.checked_add(timeout).ok()?.duration_since(now.wall)).ok()?;
        let until = now
            .monotonic
            .saturating_add(left)
            .min(heard_at.saturating_add(timeout));
        (until > now.monotonic).then_some(until)
    }
}

/// What is known besides the workloads: whether the view is whole, the switch, the webhook.
pub struct Preconditions<'a> {
    /// Workloads.
    pub view: &'a View,
    /// The switch.
    pub control: &'a View,
    /// The webhook's Lease.
    pub webhook: &'a View,
}

/// Whether everything that was asked for is known, and no change of it may have been missed.
pub fn is_current(view: &View) -> bool {
    view.is_synced() && view.stale_since().is_none()
}

/// Until when something may be done, where the webhook has a say in it; or why nothing may be at
/// this moment.
pub fn check_preconditions(
    preconditions: &Preconditions<'_>,
    policy: &PausePolicy,
    liveness: &mut WebhookLiveness,
    now: ClockReading,
) -> Result<Option<Duration>, PauseReason> {
    let Preconditions {
        view,
        control,
        webhook,
    } = preconditions;
    if policy
        .stop_config_map
        .as_ref()
        .is_some_and(|key| control.switches.get(key).is_some())
    {
        return Err(PauseReason::Stopped);
    }
    if !is_current(view) || !is_current(control) {
        return Err(PauseReason::ViewStale);
    }
    let Some((key, timeout)) = &policy.webhook_lease else {
        return Ok(None);
    };
    let last = webhook
        .heartbeats
        .get(key)
        .and_then(|heartbeat| heartbeat.created_at.max(heartbeat.renewed_at));
    let until = last.and_then(|last| liveness.alive_until(last, *timeout, now));
    until.map(Some).ok_or(PauseReason::WebhookLeaseExpired)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use view::{Freshness, Heartbeat, ObjectKey, Resource, Switch};

    use super::*;

    const TIMEOUT: Duration = Duration::from_mins(1);

    fn wall(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).expect("in range")
    }

    fn clocks() -> ClockReading {
        ClockReading {
            wall: wall(0),
            monotonic: Duration::ZERO,
        }
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
        view.heartbeats.apply(Arc::new(Heartbeat {
            key,
            created_at: Some(wall(created)),
            renewed_at: renewed.map(wall),
        }));
        view
    }

    /// What holds at some moments, each given by both clocks, in seconds.
    fn check(webhooks: &[(&View, i64, u64)], expected: &[Result<u64, PauseReason>]) {
        let (view, start, mut liveness) = (
            View::default(),
            Duration::from_hours(1),
            WebhookLiveness::default(),
        );
        let found: Vec<_> = webhooks
            .iter()
            .map(|(webhook, at, monotonic)| {
                let preconditions = Preconditions {
                    view: &view,
                    control: &view,
                    webhook,
                };
                let now = ClockReading {
                    wall: wall(*at),
                    monotonic: start + Duration::from_secs(*monotonic),
                };
                let until = check_preconditions(&preconditions, &policy(), &mut liveness, now);
                until.map(|until| until.map_or(0, |until| (until - start).as_secs()))
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_webhook_lives_for_a_while_after_its_lease_was_made_or_renewed() {
        let none = Err(PauseReason::WebhookLeaseExpired);
        check(&[(&View::default(), 0, 0)], &[none]);
        check(
            &[(&webhook(0, None), 10, 0), (&webhook(0, None), 60, 50)],
            &[Ok(50), none],
        );
        check(
            &[
                (&webhook(0, Some(100)), 130, 0),
                (&webhook(0, Some(110)), 130, 1),
            ],
            &[Ok(30), Ok(41)],
        );
    }

    #[test]
    fn a_jump_of_the_clock_never_makes_it_live_longer() {
        let lease = webhook(0, None);
        check(
            &[(&lease, 0, 0), (&lease, -3600, 30), (&lease, -3600, 60)],
            &[Ok(60), Ok(60), Err(PauseReason::WebhookLeaseExpired)],
        );
        check(
            &[(&lease, 0, 0), (&lease, 3600, 1)],
            &[Ok(60), Err(PauseReason::WebhookLeaseExpired)],
        );
    }

    #[test]
    fn a_hold_is_lifted_only_when_every_watch_is_current() {
        let lease = webhook(0, None);
        let found = |view: &View, control: &View| {
            let preconditions = Preconditions {
                view,
                control,
                webhook: &lease,
            };
            check_preconditions(
                &preconditions,
                &policy(),
                &mut WebhookLiveness::default(),
                clocks(),
            )
            .err()
        };
        let set = |view: &mut View, resource: Resource, synced: bool, is_stale: bool| {
            let stale_since = is_stale.then(|| wall(0));
            view.set_freshness(
                resource,
                Freshness {
                    synced,
                    stale_since,
                    ..Freshness::default()
                },
            );
        };
        let (mut view, current) = (View::default(), View::default());
        set(&mut view, Resource::Pods, false, false);
        assert_eq!(
            found(&view, &current),
            Some(PauseReason::ViewStale),
            "no list was read"
        );
        set(&mut view, Resource::Pods, true, true);
        set(&mut view, Resource::DisruptionBudgets, true, true);
        assert_eq!(found(&view, &current), Some(PauseReason::ViewStale));
        set(&mut view, Resource::Pods, true, false);
        assert_eq!(
            found(&view, &current),
            Some(PauseReason::ViewStale),
            "the budgets may have changed"
        );
        assert_eq!(
            found(&current, &view),
            Some(PauseReason::ViewStale),
            "the switch may be on"
        );
        set(&mut view, Resource::DisruptionBudgets, true, false);
        assert_eq!(found(&view, &view), None);
    }

    #[test]
    fn the_switch_stops_everything() {
        let (view, lease) = (View::default(), webhook(0, None));
        let mut control = View::default();
        control.switches.apply(Arc::new(Switch {
            key: ObjectKey::new("system", "other"),
        }));
        let found = |control: &View| {
            let preconditions = Preconditions {
                view: &view,
                control,
                webhook: &lease,
            };
            check_preconditions(
                &preconditions,
                &policy(),
                &mut WebhookLiveness::default(),
                clocks(),
            )
            .err()
        };
        assert_eq!(found(&control), None);
        control.switches.apply(Arc::new(Switch {
            key: ObjectKey::new("system", "stop"),
        }));
        assert_eq!(found(&control), Some(PauseReason::Stopped));
    }
}

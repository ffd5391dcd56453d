//! Rate limits: from the count at the start of each policy's period, a number of pods or percent.
//!
//! Source: upstream `horizontal.go` (`calculateScaleUpLimitWithScalingRules`,
//! `calculateScaleDownLimitWithBehaviors`).

use jiff::{SignedDuration, Timestamp};

use super::behavior::{CompleteRules, Policy, PolicyKind, SelectPolicy};
use super::stabilisation::before;

/// Numbers of added or removed pods, with their times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes(Vec<(Timestamp, i32)>);

impl Changes {
    /// Records a change. It replaces one older than all of these policies' periods, as in the
    /// controller: policies of the other direction may still see the rest.
    pub(super) fn add(&mut self, pods: i32, policies: &[Policy], now: Timestamp) {
        let longest = policies.iter().map(|policy| policy.period_seconds).max();
        let edge = before(now, SignedDuration::from_secs(longest.unwrap_or(0).into()));
        match self.0.iter_mut().rfind(|(at, _)| *at < edge) {
            Some(outdated) => *outdated = (now, pods),
            None => self.0.push((now, pods)),
        }
    }

    fn within(&self, period_seconds: i32, now: Timestamp) -> i32 {
        let edge = before(now, SignedDuration::from_secs(period_seconds.into()));
        let recent = self.0.iter().filter(|(at, _)| *at > edge);
        recent.fold(0, |sum, (_, pods)| sum.saturating_add(*pods))
    }
}

/// Changes in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Events {
    pub(super) up: Changes,
    pub(super) down: Changes,
}

impl Events {
    /// The count at the start of a policy's period.
    fn at_start(&self, policy: &Policy, current: i32, now: Timestamp) -> i32 {
        let added = self.up.within(policy.period_seconds, now);
        let removed = self.down.within(policy.period_seconds, now);
        current.saturating_sub(added).saturating_add(removed)
    }

    /// The maximum that the rules allow now.
    pub(super) fn ceiling(&self, rules: &CompleteRules, current: i32, now: Timestamp) -> i32 {
        let limits = rules.policies.iter().map(|policy| {
            let start = self.at_start(policy, current, now);
            match policy.kind {
                PolicyKind::Pods => start.saturating_add(policy.value),
                // Rounded up, so that a small percentage of few pods is still one.
                PolicyKind::Percent => {
                    (f64::from(start) * (1.0 + f64::from(policy.value) / 100.0)).ceil() as i32
                }
            }
        });
        let limit = match rules.select {
            SelectPolicy::Disabled => None,
            SelectPolicy::Max => limits.max(),
            SelectPolicy::Min => limits.min(),
        };
        limit.unwrap_or(current).max(current)
    }

    /// The minimum that the rules allow now. The policy with the largest change gives the smallest
    /// number.
    pub(super) fn floor(&self, rules: &CompleteRules, current: i32, now: Timestamp) -> i32 {
        let limits = rules.policies.iter().map(|policy| {
            let start = self.at_start(policy, current, now);
            match policy.kind {
                PolicyKind::Pods => start.saturating_sub(policy.value),
                PolicyKind::Percent => {
                    (f64::from(start) * (1.0 - f64::from(policy.value) / 100.0)) as i32
                }
            }
        });
        let limit = match rules.select {
            SelectPolicy::Disabled => None,
            SelectPolicy::Max => limits.min(),
            SelectPolicy::Min => limits.max(),
        };
        limit.unwrap_or(current).min(current)
    }
}

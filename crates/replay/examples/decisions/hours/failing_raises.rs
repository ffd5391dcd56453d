//! Raises that a node refuses, or that come late.

use jiff::{SignedDuration, Timestamp};
use replay::Policy;

use crate::bootstrap::split_mix;

/// The end of a raise that does not happen at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It comes at the end of the next slot.
    Late,
    /// It is refused, and so are all raises of these hours.
    Refused(i64),
}

/// A policy whose raises fail by chance. Meant for an executor with early raises.
pub(super) struct FailingRaises {
    pub(super) policy: Box<dyn Policy>,
    /// Share of failing raises.
    pub(super) share: f64,
    pub(super) failure: Failure,
    /// State of the random numbers.
    pub(super) seed: u64,
    pub(super) late: Option<f64>,
    /// The time until which raises are refused.
    pub(super) refused_until: Option<Timestamp>,
}

impl FailingRaises {
    fn attempt(&mut self, now: Timestamp, wanted: f64, request: f64) -> Option<f64> {
        // The executor ignores a difference of 10 %.
        if wanted <= 1.1 * request {
            return Some(wanted);
        }
        if self.refused_until.is_some_and(|until| now < until) {
            return None;
        }
        let draw = split_mix(&mut self.seed) as f64 / u64::MAX as f64;
        if draw >= self.share {
            return Some(wanted);
        }
        match self.failure {
            Failure::Late => self.late = Some(wanted),
            Failure::Refused(hours) => {
                self.refused_until = Some(now + SignedDuration::from_hours(hours));
            }
        }
        None
    }
}

impl Policy for FailingRaises {
    fn observe(&mut self, pod: usize, at: Timestamp, usage: f64) {
        self.policy.observe(pod, at, usage);
    }

    fn oom(&mut self, at: Timestamp, request: f64) {
        self.policy.oom(at, request);
    }

    fn recommend(&mut self, now: Timestamp, request: f64) -> Option<f64> {
        let late = self.late.take();
        let wanted = self.policy.recommend(now, request)?;
        if late.is_some() {
            return Some(wanted);
        }
        self.attempt(now, wanted, request)
    }

    fn raise(&mut self, now: Timestamp, usage: f64, request: f64) -> Option<f64> {
        if let Some(late) = self.late.take() {
            return Some(late);
        }
        let wanted = self.policy.raise(now, usage, request)?;
        self.attempt(now, wanted, request)
    }
}

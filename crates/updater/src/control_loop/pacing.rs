//! The rate limiters that an action must pass: evictions with rolling updates, resizes, requests to
//! the API server.

use std::time::{Duration, Instant};

use rollout::{Action, ActionKind};
use runtime::rate_limiter::Throttle;

use crate::rate_limit::{RateLimiter, RateLimits};

/// The rate limits of evictions, of resizes, and of requests to the API server.
pub(super) struct Pacing {
    limits: RateLimits,
    evictions: RateLimiter,
    resizes: RateLimiter,
    requests: Throttle,
}

impl Pacing {
    pub(super) fn new(limits: RateLimits, requests: Throttle) -> Self {
        Self {
            limits,
            evictions: RateLimiter::new(limits),
            resizes: RateLimiter::new(limits),
            requests,
        }
    }

    /// Takes a token of each limit that applies to an action. If one of them has none, takes
    /// nothing and returns the wait.
    pub(super) fn admit(&mut self, action: &Action, now: Instant) -> Result<(), Duration> {
        let mut requests = self.requests;
        let wait = if action.reason.is_urgent() {
            requests.take_urgent(now)
        } else {
            requests.take(now)
        };
        if !wait.is_zero() {
            return Err(wait);
        }
        // A rolling update counts as one eviction.
        let limiter = match action.kind {
            ActionKind::Evict | ActionKind::RollingUpdate(_) => &mut self.evictions,
            ActionKind::Resize { .. } => &mut self.resizes,
        };
        limiter.take(&action.pod.namespace, now)?;
        self.requests = requests;
        Ok(())
    }

    /// Whether only requests to the API server are limited. Then no action overtakes one that
    /// waits.
    pub(super) fn is_request_limit_only(&self) -> bool {
        self.limits == RateLimits::default()
    }
}

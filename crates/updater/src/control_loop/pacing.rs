//! The rate limiters that an action must pass: evictions with rolling updates, resizes, requests to
//! the API server. As upstream's, evictions and resizes have the same limit and separate tokens.

use std::time::{Duration, Instant};

use rollout::{Action, ActionKind};
use runtime::rate_limiter::Throttle;

pub(super) struct Pacing {
    evictions: Option<Throttle>,
    resizes: Option<Throttle>,
    requests: Throttle,
}

impl Pacing {
    /// `limit`: actions per second and burst; `None` means no limit.
    pub(super) fn new(limit: Option<(f64, u32)>, requests: Throttle) -> Self {
        let limiter = limit.map(|(per_second, burst)| Throttle::new(per_second, burst));
        Self {
            evictions: limiter,
            resizes: limiter,
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
        if let Some(limiter) = limiter {
            let mut left = *limiter;
            let wait = left.take(now);
            if !wait.is_zero() {
                return Err(wait);
            }
            *limiter = left;
        }
        self.requests = requests;
        Ok(())
    }

    /// Whether only requests to the API server are limited. Then no action overtakes one that
    /// waits.
    pub(super) fn is_request_limit_only(&self) -> bool {
        self.evictions.is_none()
    }
}

#[cfg(test)]
mod tests {
    use rollout::ActionReason;

    use super::*;
    use crate::fixture;

    #[test]
    fn an_action_that_waits_takes_no_token() {
        let mut pacing = Pacing::new(Some((10.0, 2)), Throttle::new(1.0, 3));
        let (start, action) = (Instant::now(), fixture::eviction(ActionReason::Drift));
        for (at_ms, wait_ms) in [
            (0, None),
            (0, None),
            (0, Some(100)),
            (50, Some(50)),
            // The third token of requests was not taken by those that waited.
            (100, None),
            (200, Some(800)),
        ] {
            let wait = pacing.admit(&action, start + Duration::from_millis(at_ms));
            let expected = wait_ms.map(Duration::from_millis);
            assert_eq!(wait.err(), expected, "at {at_ms}");
        }
    }

    #[test]
    fn without_a_limit_only_requests_wait() {
        let pacing = |limit| Pacing::new(limit, Throttle::new(1.0, 1));
        assert!(pacing(None).is_request_limit_only());
        assert!(!pacing(Some((1.0, 1))).is_request_limit_only());
    }
}

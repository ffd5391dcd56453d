//! Rate limits of evictions and resizes, overall and per namespace. Time is an argument.
//!
//! As upstream's, evictions and resizes have the same limits and separate tokens.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use runtime::rate_limiter::Throttle;

/// Actions per second and burst; `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RateLimits {
    /// The limit of all namespaces together.
    pub overall: Option<(f64, u32)>,
    /// The limit of each namespace.
    pub namespace: Option<(f64, u32)>,
}

/// The number of namespaces above which those with all their tokens are forgotten.
const MAX_NAMESPACES: usize = 10_000;

/// The tokens of one kind of action.
#[derive(Debug)]
pub struct RateLimiter {
    limits: RateLimits,
    overall: Option<Throttle>,
    namespaces: HashMap<String, Throttle>,
}

impl RateLimiter {
    /// A limiter with all its tokens.
    pub fn new(limits: RateLimits) -> Self {
        let overall = limits
            .overall
            .map(|(per_second, burst)| Throttle::new(per_second, burst));
        Self {
            limits,
            overall,
            namespaces: HashMap::new(),
        }
    }

    /// Takes a token of both limits for an action in this namespace. If one has none, takes
    /// nothing and returns the wait.
    pub fn take(&mut self, namespace: &str, now: Instant) -> Result<(), Duration> {
        let (mut overall, mut own) = (self.overall, self.of_namespace(namespace));
        let waits = [overall.as_mut(), own.as_mut()]
            .map(|throttle| throttle.map(|throttle| throttle.take(now)));
        match waits.into_iter().flatten().max() {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                self.overall = overall;
                if let Some(own) = own {
                    self.remember(namespace, own, now);
                }
                Ok(())
            }
        }
    }

    fn of_namespace(&self, namespace: &str) -> Option<Throttle> {
        let (per_second, burst) = self.limits.namespace?;
        Some(
            self.namespaces
                .get(namespace)
                .copied()
                .unwrap_or_else(|| Throttle::new(per_second, burst)),
        )
    }

    fn remember(&mut self, namespace: &str, own: Throttle, now: Instant) {
        if self.namespaces.len() >= MAX_NAMESPACES {
            self.namespaces.retain(|_, throttle| !throttle.is_full(now));
        }
        self.namespaces.insert(namespace.to_owned(), own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: RateLimits = RateLimits {
        overall: None,
        namespace: None,
    };

    fn check(limits: RateLimits, actions: &[(&str, u64, Option<u64>)]) {
        let (start, mut limiter) = (Instant::now(), RateLimiter::new(limits));
        for (namespace, at_ms, wait_ms) in actions {
            let wait = limiter
                .take(namespace, start + Duration::from_millis(*at_ms))
                .err();
            assert_eq!(
                wait,
                wait_ms.map(Duration::from_millis),
                "{namespace} at {at_ms}"
            );
        }
    }

    #[test]
    fn without_limits_nothing_waits() {
        check(NONE, &[("a", 0, None), ("a", 0, None), ("a", 0, None)]);
    }

    #[test]
    fn the_overall_limit_applies_to_all_namespaces() {
        let limits = RateLimits {
            overall: Some((10.0, 2)),
            ..NONE
        };
        check(
            limits,
            &[
                ("a", 0, None),
                ("b", 0, None),
                ("c", 0, Some(100)),
                ("c", 50, Some(50)),
                ("c", 100, None),
            ],
        );
    }

    #[test]
    fn a_namespace_that_waits_delays_no_other() {
        let limits = RateLimits {
            overall: Some((100.0, 10)),
            namespace: Some((1.0, 1)),
        };
        check(
            limits,
            &[
                ("a", 0, None),
                ("a", 0, Some(1000)),
                ("b", 0, None),
                ("a", 1000, None),
            ],
        );
    }

    #[test]
    fn an_action_that_waits_takes_no_token() {
        let limits = RateLimits {
            overall: Some((1.0, 2)),
            namespace: Some((1.0, 1)),
        };
        check(
            limits,
            &[
                ("a", 0, None),
                ("a", 0, Some(1000)),
                ("a", 0, Some(1000)),
                ("b", 0, None),
            ],
        );
    }
}

//! Token bucket with a reserve for urgent requests: `burst` requests at once, then `qps` per second. Further requests
//! wait.
//!
//! A part of the burst can be reserved for urgent requests, so that they do not wait behind others.
//! Urgent requests take tokens too, so the limits apply to all requests together.
//!
//! Example: with 10 qps, a burst of 20 and 10 reserved tokens, 15 ordinary requests at once wait 0
//! s (ten of them) to 0.5 s, and an urgent one after them does not wait.
//!
//! Source: client-go's `flowcontrol.NewTokenBucketRateLimiter`. Time is an argument.

use std::time::{Duration, Instant};

/// A token bucket, stored as the time at which it will be full again.
#[derive(Debug, Clone, Copy)]
pub struct Throttle {
    per_token: Duration,
    /// Time to fill an empty bucket.
    capacity: Duration,
    /// The part of `capacity` that is reserved for urgent requests.
    reserved: Duration,
    /// Whether to reject requests that would use up the reserve by waiting.
    refuses: bool,
    full_at: Option<Instant>,
}

impl Throttle {
    /// A full bucket. `qps` must be positive, and `1 / qps` seconds representable.
    pub fn new(qps: f64, burst: u32) -> Self {
        let per_token = Duration::try_from_secs_f64(qps.recip()).unwrap_or(Duration::MAX);
        let capacity = per_token.saturating_mul(burst.max(1));
        Self {
            per_token,
            capacity,
            reserved: Duration::ZERO,
            refuses: false,
            full_at: None,
        }
    }

    /// Reserves `tokens` of the burst for urgent requests. At least one token remains for others.
    #[must_use]
    pub fn reserving(self, tokens: u32) -> Self {
        let most = self.capacity.saturating_sub(self.per_token);
        Self {
            reserved: self.per_token.saturating_mul(tokens).min(most),
            ..self
        }
    }

    /// Rejects a non-urgent request whose wait would exceed half the reserved burst. Requests that
    /// wait use up future tokens; without a limit, many of them would delay urgent requests too.
    #[must_use]
    pub fn refusing(self) -> Self {
        Self {
            refuses: true,
            ..self
        }
    }

    /// Takes one token and returns the wait before using it; `None` if the request is rejected.
    pub fn acquire(&mut self, is_urgent: bool, now: Instant) -> Option<Duration> {
        if is_urgent {
            return Some(self.take_urgent(now));
        }
        let before = *self;
        let wait = self.take(now);
        if self.refuses && wait > self.reserved / 2 {
            *self = before;
            return None;
        }
        Some(wait)
    }

    /// Takes one token and returns the wait before using it. Requests are served in order.
    pub fn take(&mut self, now: Instant) -> Duration {
        self.wait(now, self.capacity.saturating_sub(self.reserved))
    }

    /// Takes one token for an urgent request, which may use the reserve.
    pub fn take_urgent(&mut self, now: Instant) -> Duration {
        self.wait(now, self.capacity)
    }

    fn wait(&mut self, now: Instant, capacity: Duration) -> Duration {
        let full_at = self.full_at.map_or(now, |full_at| full_at.max(now));
        let Some(full_at) = full_at.checked_add(self.per_token) else {
            return Duration::MAX;
        };
        self.full_at = Some(full_at);
        (full_at - now).saturating_sub(capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let start = Instant::now();
        let mut throttle = Throttle::new(50.0, 100);
        let waits: Vec<_> = (0..150).map(|_| throttle.take(start)).collect();
        assert!(waits[..100].iter().all(Duration::is_zero));
        assert_eq!(waits[100], Duration::from_millis(20));
        assert_eq!(waits[149], Duration::from_secs(1));
    }

    #[test]
    fn tokens_come_back_with_time_up_to_the_burst() {
        let start = Instant::now();
        let mut throttle = Throttle::new(10.0, 2);
        for (at_ms, wait_ms) in [
            (0, 0),
            (0, 0),
            (0, 100),
            (50, 150),
            (400, 0),
            (10_000, 0),
            (10_000, 0),
            (10_000, 100),
        ] {
            let wait = throttle.take(start + Duration::from_millis(at_ms));
            assert_eq!(wait, Duration::from_millis(wait_ms), "at {at_ms} ms");
        }
    }

    #[test]
    fn urgent_requests_go_at_once_while_others_wait() {
        let start = Instant::now();
        let mut throttle = Throttle::new(50.0, 100).reserving(25);
        let waits: Vec<_> = (0..95).map(|_| throttle.take(start)).collect();
        assert!(waits[..75].iter().all(Duration::is_zero));
        let ms = Duration::from_millis;
        assert_eq!([waits[75], waits[94]], [ms(20), ms(400)]);
        let urgent: Vec<_> = (0..7).map(|_| throttle.take_urgent(start)).collect();
        assert_eq!(urgent, [0, 0, 0, 0, 0, 20, 40].map(ms));
        assert_eq!(throttle.take(start), ms(560), "what was urgent counts");
    }

    #[test]
    fn with_rejection_urgent_requests_wait_for_each_other_only() {
        let start = Instant::now();
        let mut throttle = Throttle::new(200.0, 400).reserving(100).refusing();
        let waits: Vec<_> = (0..1000).map(|_| throttle.acquire(false, start)).collect();
        let ms = |milliseconds| Some(Duration::from_millis(milliseconds));
        assert_eq!(waits[..300], [ms(0); 300]);
        assert_eq!([waits[349], waits[350], waits[999]], [ms(250), None, None]);
        let urgent: Vec<_> = (0..51).map(|_| throttle.acquire(true, start)).collect();
        assert_eq!(urgent[..50], [ms(0); 50]);
        assert_eq!(urgent[50], ms(5));
        assert_eq!(throttle.acquire(false, start), None);
        let later = throttle.acquire(false, start + Duration::from_millis(260));
        assert_eq!(later, ms(250), "refusals took nothing");
    }

    #[test]
    fn a_small_burst_keeps_one_token_for_ordinary_requests() {
        let start = Instant::now();
        let mut throttle = Throttle::new(10.0, 2).reserving(7);
        assert_eq!(throttle.take(start), Duration::ZERO);
        assert_eq!(throttle.take_urgent(start), Duration::ZERO);
        assert_eq!(throttle.take_urgent(start), Duration::from_millis(100));
    }
}

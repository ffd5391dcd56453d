//! Reconnection delays: doubling up to a limit, with jitter.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
/// Low, since values are stale meanwhile and there are few readers.
const LONGEST: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Backoff {
    pause: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { pause: FIRST }
    }
}

impl Backoff {
    /// The next delay; `random` is between 0 and 1.
    pub(super) fn next(&mut self, random: f64) -> Duration {
        let pause = self.pause.mul_f64(0.5 + random / 2.0);
        self.pause = (self.pause * 2).min(LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let mut backoff = Backoff::default();
        let longest: Vec<_> = (0..8).map(|_| backoff.next(1.0).as_millis()).collect();
        assert_eq!(longest, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(backoff.next(0.0), LONGEST / 2);
    }
}

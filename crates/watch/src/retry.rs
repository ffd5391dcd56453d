//! How long to wait before the API server is asked again: doubling from half a second to ten
//! seconds, spread by chance.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(10);

/// Waiting times in a row of failures.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    failures: u32,
}

impl Retry {
    /// The waiting time after one more failure. `chance` is from 0 to 1 and takes away up to half
    /// of it.
    pub(crate) fn next(&mut self, chance: f64) -> Duration {
        let full = FIRST
            .saturating_mul(2u32.saturating_pow(self.failures))
            .min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        full.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0)
    }

    /// Things went well again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(failures: u32, chance: f64, expected_ms: u64) {
        let mut retry = Retry { failures };
        assert_eq!(
            retry.next(chance),
            Duration::from_millis(expected_ms),
            "{failures} failures"
        );
    }

    #[test]
    fn waiting_times_double_up_to_a_limit() {
        check(0, 0.0, 500);
        check(1, 0.0, 1000);
        check(4, 0.0, 8000);
        check(5, 0.0, 10_000);
        check(u32::MAX, 0.0, 10_000);
    }

    #[test]
    fn chance_takes_away_up_to_half() {
        check(0, 1.0, 250);
        check(5, 0.5, 7500);
    }

    #[test]
    fn success_starts_again() {
        let mut retry = Retry { failures: 5 };
        retry.reset();
        assert_eq!(retry.next(0.0), FIRST);
    }
}

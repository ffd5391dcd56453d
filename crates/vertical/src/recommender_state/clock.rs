//! Plausibility of the wall clock. While it is implausible, no history is dropped and no stored
//! history is overwritten.
//!
//! Samples have the times of their nodes' clocks. A few of those may be wrong, but hardly half. The
//! clock is confirmed while it is within an hour of the median sample of the last round. A jump
//! that affects the nodes too, as on a single machine, shows against the monotonic clock: then
//! nothing is dropped until the clock has run evenly for an hour.
//!
//! Each round with samples confirms or contradicts the clock. Without usage it becomes unconfirmed
//! after an hour, but it is contradicted only if it jumps.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Maximum distance of a confirmed clock from the samples. No source of usage is that late.
const TOLERANCE: SignedDuration = SignedDuration::from_hours(1);
/// Maximum difference between both clocks from one round to the next that is not a jump.
const EVEN: Duration = Duration::from_mins(5);
/// Time without a jump after which history is dropped again.
const SETTLED: Duration = Duration::from_hours(1);

/// The wall clock, compared with usage and with the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct ClockCheck {
    /// The last round with samples.
    measured: Option<Measured>,
    /// Both clocks at the end of the last round.
    last_round: Option<(Timestamp, Duration)>,
    /// Monotonic time of the last jump.
    jumped: Option<Duration>,
}

/// The clocks of the nodes in one round, compared with ours.
#[derive(Debug)]
struct Measured {
    /// Median time of the samples.
    median: Timestamp,
    /// Whether our clock was within [`TOLERANCE`] of it, in that round and after each jump since.
    agrees: bool,
}

impl Measured {
    fn is_near(&self, now: Timestamp) -> bool {
        now.duration_since(self.median).abs() <= TOLERANCE
    }
}

impl ClockCheck {
    /// Takes the times of a round's samples, read at `now`. Returns the first of those that are not far
    /// from their median: the clock of a node may be years behind.
    pub(super) fn measure(
        &mut self,
        times: impl Iterator<Item = Timestamp>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let mut times: Vec<Timestamp> = times.collect();
        if times.is_empty() {
            return None;
        }
        let middle = times.len() / 2;
        let mut measured = Measured {
            median: *times.select_nth_unstable(middle).1,
            agrees: true,
        };
        measured.agrees = measured.is_near(now);
        let first = times.into_iter().filter(|at| measured.is_near(*at)).min();
        self.measured = Some(measured);
        first
    }

    pub(super) fn round_ended(&mut self, now: Timestamp, steady: Duration) {
        if let Some((before, steady_before)) = self.last_round {
            let passed = now.duration_since(before);
            let expected = steady.saturating_sub(steady_before);
            let expected = SignedDuration::try_from(expected).unwrap_or(SignedDuration::MAX);
            if passed.saturating_sub(expected).unsigned_abs() > EVEN {
                self.jumped = Some(steady);
                if let Some(measured) = &mut self.measured {
                    measured.agrees = measured.is_near(now);
                }
            }
        }
        self.last_round = Some((now, steady));
    }

    /// Whether usage confirms this time.
    pub(super) fn confirms(&self, now: Timestamp) -> bool {
        let measured = self.measured.as_ref();
        measured.is_some_and(|measured| measured.is_near(now))
    }

    /// Whether usage contradicts this time. Never before the first sample, and never for lack of
    /// samples.
    pub(super) fn contradicts(&self, now: Timestamp) -> bool {
        let is_before = |measured: &Measured| now < measured.median && !measured.is_near(now);
        let measured = self.measured.as_ref();
        measured.is_some_and(|measured| !measured.agrees || is_before(measured))
    }

    /// Whether history may be dropped at this time.
    pub(super) fn may_expire(&self, now: Timestamp) -> bool {
        let is_settled = |jumped: Duration| {
            self.last_round
                .is_some_and(|(_, steady)| steady.saturating_sub(jumped) >= SETTLED)
        };
        self.confirms(now) && self.jumped.is_none_or(is_settled)
    }

    /// This time, but no later than usage allows.
    pub(super) fn at_most(&self, now: Timestamp) -> Timestamp {
        let measured = self.measured.as_ref();
        let latest = measured.and_then(|measured| measured.median.checked_add(TOLERANCE).ok());
        latest.map_or(now, |latest| now.min(latest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::at;

    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;

    /// One round per minute: by how much the wall clock is ahead in it.
    fn after(ahead: &[i64]) -> ClockCheck {
        let mut check = ClockCheck::default();
        for (minute, ahead) in (0..).zip(ahead) {
            let now = at(minute * MINUTE + ahead);
            check.measure([at(minute * MINUTE)].into_iter(), now);
            check.round_ended(now, Duration::from_secs(minute.unsigned_abs() * 60));
        }
        check
    }

    #[test]
    fn a_clock_is_confirmed_while_it_is_near_the_samples() {
        let check = after(&[0]);
        for (ahead, expected) in [
            (0, true),
            (30, true),
            (HOUR, true),
            (HOUR + 1, false),
            (DAY, false),
            (8 * DAY, false),
            (200 * DAY, false),
        ] {
            for ahead in [ahead, -ahead] {
                let found = [check.confirms(at(ahead)), check.may_expire(at(ahead))];
                assert_eq!(found, [expected; 2], "{ahead}");
            }
        }
        let unmeasured = ClockCheck::default();
        assert!(!unmeasured.confirms(at(0)) && !unmeasured.contradicts(at(0)));
        // A clock that is ahead may be silence.
        let contradicted = [0, 8 * DAY, -8 * DAY].map(|now| check.contradicts(at(now)));
        assert_eq!(contradicted, [false, false, true]);
        assert!(after(&[8 * DAY]).contradicts(at(8 * DAY)));
    }

    #[test]
    fn a_few_nodes_with_wrong_clocks_confirm_nothing() {
        let mut check = ClockCheck::default();
        let times = [8 * DAY, 0, 1, 200 * DAY, 2, -200 * DAY].map(at);
        let first = check.measure(times.into_iter(), at(0));
        assert_eq!(first, Some(at(0)), "of those with a right clock");
        let confirmed = [0, 8 * DAY, 200 * DAY].map(|now| check.confirms(at(now)));
        assert_eq!(confirmed, [true, false, false]);
        // A round without samples says nothing.
        check.measure(std::iter::empty(), at(8 * DAY));
        assert!(check.confirms(at(0)));
    }

    #[test]
    fn nothing_expires_within_an_hour_of_a_jump() {
        for jump in [DAY, 8 * DAY, 200 * DAY, -DAY, -8 * DAY] {
            let rounds = [&[0, jump][..], &[0; 61]].concat();
            for (minute, expected) in [(2, false), (61, false), (62, true)] {
                let check = after(&rounds[..=minute as usize]);
                assert_eq!(
                    check.may_expire(at(minute * MINUTE)),
                    expected,
                    "{jump} {minute}"
                );
            }
        }
        assert!(
            after(&[0, 30, 0, -30]).may_expire(at(0)),
            "seconds are no jump"
        );
    }

    #[test]
    fn no_time_is_later_than_usage_allows() {
        let check = after(&[0]);
        for (now, expected) in [(-8 * DAY, -8 * DAY), (60, 60), (8 * DAY, HOUR)] {
            assert_eq!(check.at_most(at(now)), at(expected));
        }
        assert_eq!(ClockCheck::default().at_most(at(8 * DAY)), at(8 * DAY));
    }
}

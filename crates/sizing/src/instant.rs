//! Points in time as 64-bit nanoseconds since 1970, with a "never" before all others.
//!
//! "Never" represents upstream's zero time (year 1): no sample yet, no reference yet. Its distance
//! to every other point is infinite, due to upstream's saturating subtraction. Times outside the
//! years 1678 to 2261 are clamped.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Instant(i64);

impl Default for Instant {
    fn default() -> Self {
        Self::NEVER
    }
}

pub(crate) const DAY_NS: i64 = 86_400_000_000_000;

/// Nanoseconds between 0001-01-01T00:00:00Z, upstream's origin for multiples of a duration, and
/// 1970.
const YEAR_ONE: i128 = 62_135_596_800_000_000_000;

impl Instant {
    pub const NEVER: Self = Self(i64::MIN);

    pub(crate) fn is_never(self) -> bool {
        self == Self::NEVER
    }

    /// Nanoseconds since `earlier`, clamped to 64 bits.
    pub fn since(self, earlier: Self) -> i64 {
        match (self.is_never(), earlier.is_never()) {
            (true, true) => 0,
            (true, false) => i64::MIN,
            (false, true) => i64::MAX,
            (false, false) => self.0.saturating_sub(earlier.0),
        }
    }

    /// The point `nanoseconds` later; never stays never.
    #[must_use]
    pub fn plus(self, nanoseconds: i64) -> Self {
        if self.is_never() {
            self
        } else {
            Self(self.0.saturating_add(nanoseconds).max(i64::MIN + 1))
        }
    }

    /// The nearest multiple of `step` nanoseconds since year 1, half up. `step` is positive.
    pub(crate) fn round(self, step: i64) -> Self {
        if self.is_never() {
            return self;
        }
        let rest = (i128::from(self.0) + YEAR_ONE).rem_euclid(i128::from(step)) as i64;
        if rest < step - rest {
            self.plus(-rest)
        } else {
            self.plus(step - rest)
        }
    }

    /// The point `nanoseconds` after 1970.
    pub(crate) fn from_nanoseconds(nanoseconds: i64) -> Self {
        Self(nanoseconds.max(i64::MIN + 1))
    }

    /// Number of whole steps since 1970. `step` is positive.
    pub(crate) fn whole(self, step: i64) -> i64 {
        self.0.div_euclid(step)
    }

    pub(crate) fn earliest(self, other: Self) -> Self {
        if self.is_never() || (!other.is_never() && other < self) {
            other
        } else {
            self
        }
    }
}

impl From<Timestamp> for Instant {
    fn from(timestamp: Timestamp) -> Self {
        let (least, most) = (i128::from(i64::MIN + 1), i128::from(i64::MAX));
        Self(timestamp.as_nanosecond().clamp(least, most) as i64)
    }
}

impl From<Option<Timestamp>> for Instant {
    fn from(timestamp: Option<Timestamp>) -> Self {
        timestamp.map_or(Self::NEVER, Self::from)
    }
}

impl From<Instant> for Option<Timestamp> {
    fn from(instant: Instant) -> Self {
        if instant.is_never() {
            None
        } else {
            Timestamp::from_nanosecond(i128::from(instant.0)).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DAY_NS as DAY, Instant};

    #[test]
    fn days_are_rounded_to_the_nearest_midnight_half_up() {
        assert_eq!(Instant(DAY / 2).round(DAY), Instant(DAY));
        assert_eq!(Instant(DAY / 2 - 1).round(DAY), Instant(0));
        assert_eq!(Instant(-DAY / 2 - 1).round(DAY), Instant(-DAY));
    }

    #[test]
    fn never_is_infinitely_far() {
        assert_eq!(Instant(0).since(Instant::NEVER), i64::MAX);
        assert_eq!(Instant::NEVER.since(Instant(-1)), i64::MIN);
        assert_eq!(Instant::NEVER.plus(5), Instant::NEVER);
        assert_eq!(Instant::NEVER.earliest(Instant(3)), Instant(3));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Instant(i64::MAX).plus(1), Instant(i64::MAX));
        assert!(!Instant(i64::MIN + 5).plus(-100).is_never());
    }
}

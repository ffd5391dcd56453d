//! Regular grid of a series: slots of at least five minutes, a whole number of which make a day.

use crate::output::ForecastError;

const DAY_SECONDS: u32 = 86_400;
const HOUR_SECONDS: u32 = 3600;
/// Finer samples are averaged: new pods cannot react to changes within five minutes.
const SHORTEST_SLOT_SECONDS: u32 = 300;

/// Length of a slot, and slots per hour and day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) slot_seconds: u32,
    pub(crate) per_hour: usize,
    pub(crate) per_day: usize,
}

impl Grid {
    /// `step_seconds` is at most an hour, and a day must be a whole number of slots.
    pub(crate) fn new(step_seconds: u32) -> Result<Self, ForecastError> {
        let slot_seconds = step_seconds.max(SHORTEST_SLOT_SECONDS);
        if step_seconds == 0
            || slot_seconds > HOUR_SECONDS
            || !DAY_SECONDS.is_multiple_of(slot_seconds)
        {
            return Err(ForecastError::Step { step_seconds });
        }
        Ok(Self {
            slot_seconds,
            per_hour: (HOUR_SECONDS / slot_seconds).max(1) as usize,
            per_day: (DAY_SECONDS / slot_seconds) as usize,
        })
    }

    pub(crate) fn hours(&self, hours: f64) -> f64 {
        hours * f64::from(HOUR_SECONDS) / f64::from(self.slot_seconds)
    }

    pub(crate) fn days(&self, days: f64) -> f64 {
        days * self.per_day as f64
    }

    /// Whether a horizon is at least six hours. Its errors become known so late that it can be
    /// wrong for long.
    pub(crate) fn is_long(&self, slots: usize) -> bool {
        slots as f64 >= self.hours(6.0)
    }

    /// The slot of a second since 1970.
    pub(crate) fn slot(&self, second: i64) -> i64 {
        second.div_euclid(i64::from(self.slot_seconds))
    }

    /// Converts seconds ahead to slots: at least one, at most a day.
    pub(crate) fn ahead(&self, seconds: u32) -> Result<usize, ForecastError> {
        if seconds == 0 || seconds > DAY_SECONDS {
            return Err(ForecastError::Horizon { seconds });
        }
        Ok(seconds.div_ceil(self.slot_seconds) as usize)
    }
}

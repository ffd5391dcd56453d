//! What was at the same time on earlier days: yesterday, last week, and the mean and median of the
//! last seven days.
//!
//! Fourteen days of values are kept, those of one time of day side by side. What is asked of a time
//! of day is computed once, when its newest value is stored: until the next day it is the same for
//! every forecast of that time.

use std::cmp::Ordering;

/// How many days are kept.
pub(crate) const DAYS: usize = 14;
/// How many days make a profile.
const WEEK: usize = 7;
/// How many of the largest values of a time of day are kept in order.
pub(crate) const LARGEST: usize = 4;

/// One time of day, over the last seven days that had it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Profile {
    /// How many days, at most seven.
    pub(crate) days: u32,
    /// Mean.
    pub(crate) mean: f32,
    /// Median; between the two middle ones for an even number.
    pub(crate) median: f32,
    /// Mean of the values' asinh.
    pub(crate) mean_asinh: f32,
    /// The largest, in falling order; as many as there are days.
    pub(crate) largest: [f32; LARGEST],
}

/// A slot by day and time of day.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) slot: usize,
    pub(crate) time: usize,
    day: usize,
}

/// Values of the last fourteen days by time of day. Slots are counted from the first value.
#[derive(Clone, Debug)]
pub(crate) struct Seasons {
    per_day: usize,
    values: Vec<[f32; DAYS]>,
    asinh: Vec<[f32; DAYS]>,
    profiles: Vec<Profile>,
    next: Place,
}

impl Seasons {
    pub(crate) fn new(per_day: usize) -> Self {
        Self {
            per_day,
            values: vec![[0.0; DAYS]; per_day],
            asinh: vec![[0.0; DAYS]; per_day],
            profiles: vec![Profile::default(); per_day],
            next: Place::default(),
        }
    }

    /// Memory behind it.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.values) + size_of_val(&*self.asinh) + size_of_val(&*self.profiles)
    }

    /// How many slots were stored.
    pub(crate) fn len(&self) -> usize {
        self.next.slot
    }

    /// The slot after the newest one.
    pub(crate) fn next(&self) -> Place {
        self.next
    }

    /// The slot so many after another, or before it, at most a day; none before the first. Places
    /// follow from each other without division.
    pub(crate) fn shifted(&self, place: Place, slots: isize) -> Option<Place> {
        let slot = place.slot.checked_add_signed(slots)?;
        let per_day = self.per_day as isize;
        let time = place.time as isize + slots;
        let (time, day) = if time < 0 {
            (time + per_day, place.day - 1)
        } else if time < per_day {
            (time, place.day)
        } else {
            (time - per_day, place.day + 1)
        };
        Some(Place {
            slot,
            time: time as usize,
            day,
        })
    }

    /// The slot that comes so many after the newest one, at most a day.
    pub(crate) fn ahead(&self, slots: usize) -> Option<Place> {
        self.shifted(self.next, slots as isize - 1)
    }

    /// The value of a slot that was stored; none after the last, and beyond fourteen days.
    pub(crate) fn value(&self, place: Place) -> Option<f64> {
        self.days_before(place, 0)
    }

    /// The day among those kept that lies so many days before a place.
    fn kept_day(&self, place: Place, days: usize) -> Option<usize> {
        let day = place.day.checked_sub(days)?;
        let slot = place.slot - days * self.per_day;
        (slot < self.next.slot && slot + DAYS * self.per_day >= self.next.slot)
            .then_some(day % DAYS)
    }

    /// The value so many days before a place.
    pub(crate) fn days_before(&self, place: Place, days: usize) -> Option<f64> {
        Some(f64::from(
            self.values[place.time][self.kept_day(place, days)?],
        ))
    }

    /// The asinh of the value so many days before a place.
    pub(crate) fn asinh_days_before(&self, place: Place, days: usize) -> Option<f64> {
        Some(f64::from(
            self.asinh[place.time][self.kept_day(place, days)?],
        ))
    }

    /// The profile for a slot that is at most a day after the last stored one; without days where
    /// there was none.
    pub(crate) fn profile(&self, place: Place) -> &Profile {
        &self.profiles[place.time]
    }

    /// What to store for the next slot when it is missing: last week's value, else yesterday's,
    /// else the one before; none at the start.
    pub(crate) fn substitute(&self) -> Option<f64> {
        let before = || self.value(self.shifted(self.next, -1)?);
        self.days_before(self.next, WEEK)
            .or_else(|| self.days_before(self.next, 1))
            .or_else(before)
    }

    /// Stores the value of the next slot, and its asinh.
    pub(crate) fn store(&mut self, value: f64, asinh: f64) {
        let Place { slot, time, day } = self.next;
        self.values[time][day % DAYS] = value as f32;
        self.asinh[time][day % DAYS] = asinh as f32;
        let days = WEEK.min(day + 1);
        let mut sorted = [0.0; WEEK];
        let mut asinh = 0.0;
        for (back, place) in sorted.iter_mut().take(days).enumerate() {
            let index = (day - back) % DAYS;
            *place = self.values[time][index];
            asinh += self.asinh[time][index];
        }
        let sorted = &mut sorted[..days];
        sorted.sort_unstable_by(|a: &f32, b| b.partial_cmp(a).unwrap_or(Ordering::Equal));
        let mut largest = [f32::NEG_INFINITY; LARGEST];
        largest
            .iter_mut()
            .zip(sorted.iter())
            .for_each(|(place, value)| *place = *value);
        let count = days as f32;
        self.profiles[time] = Profile {
            days: days as u32,
            mean: sorted.iter().sum::<f32>() / count,
            median: f32::midpoint(sorted[(days - 1) / 2], sorted[days / 2]),
            mean_asinh: asinh / count,
            largest,
        };
        let is_last = time + 1 == self.per_day;
        self.next = Place {
            slot: slot + 1,
            time: if is_last { 0 } else { time + 1 },
            day: day + usize::from(is_last),
        };
    }
}

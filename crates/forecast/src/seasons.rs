//! Values at the same time on earlier days: yesterday, last week, and the mean and median of the
//! last seven days.
//!
//! Fourteen days of values are kept, grouped by time of day. The profile of a time of day is
//! computed when its newest value is stored, since it serves all forecasts of that time until the
//! next day.

use std::cmp::Ordering;

pub(crate) const DAYS: usize = 14;
/// Days in a profile.
const WEEK: usize = 7;
pub(crate) const LARGEST: usize = 4;

/// Statistics of one time of day over the last seven days that had it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Profile {
    /// Number of days, at most seven.
    pub(crate) days: u32,
    pub(crate) mean: f32,
    /// Median, or the mean of the two middle values for an even number.
    pub(crate) median: f32,
    pub(crate) mean_asinh: f32,
    /// The largest values in descending order, as many as there are days.
    pub(crate) largest: [f32; LARGEST],
}

/// Index of a slot, with its day and time of day.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlotPosition {
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
    next: SlotPosition,
}

impl Seasons {
    pub(crate) fn new(per_day: usize) -> Self {
        Self {
            per_day,
            values: vec![[0.0; DAYS]; per_day],
            asinh: vec![[0.0; DAYS]; per_day],
            profiles: vec![Profile::default(); per_day],
            next: SlotPosition::default(),
        }
    }

    /// Heap memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.values) + size_of_val(&*self.asinh) + size_of_val(&*self.profiles)
    }

    pub(crate) fn len(&self) -> usize {
        self.next.slot
    }

    pub(crate) fn next(&self) -> SlotPosition {
        self.next
    }

    /// The slot `slots` after another, or before it if negative, at most a day; `None` before the
    /// first. Needs no division.
    pub(crate) fn shifted(&self, position: SlotPosition, slots: isize) -> Option<SlotPosition> {
        let slot = position.slot.checked_add_signed(slots)?;
        let per_day = self.per_day as isize;
        let time = position.time as isize + slots;
        let (time, day) = if time < 0 {
            (time + per_day, position.day - 1)
        } else if time < per_day {
            (time, position.day)
        } else {
            (time - per_day, position.day + 1)
        };
        Some(SlotPosition {
            slot,
            time: time as usize,
            day,
        })
    }

    /// The slot `slots` after the newest one, at most a day.
    pub(crate) fn ahead(&self, slots: usize) -> Option<SlotPosition> {
        self.shifted(self.next, slots as isize - 1)
    }

    /// The value of a stored slot; `None` after the last one and beyond fourteen days.
    pub(crate) fn value(&self, position: SlotPosition) -> Option<f64> {
        self.days_before(position, 0)
    }

    /// Ring index of the day `days` before a slot, if it is kept.
    fn kept_day(&self, position: SlotPosition, days: usize) -> Option<usize> {
        let day = position.day.checked_sub(days)?;
        let slot = position.slot - days * self.per_day;
        (slot < self.next.slot && slot + DAYS * self.per_day >= self.next.slot)
            .then_some(day % DAYS)
    }

    pub(crate) fn days_before(&self, position: SlotPosition, days: usize) -> Option<f64> {
        let day = self.kept_day(position, days)?;
        Some(f64::from(self.values[position.time][day]))
    }

    pub(crate) fn asinh_days_before(&self, position: SlotPosition, days: usize) -> Option<f64> {
        let day = self.kept_day(position, days)?;
        Some(f64::from(self.asinh[position.time][day]))
    }

    /// The profile for a slot at most a day after the last stored one. Has zero days if none is
    /// known.
    pub(crate) fn profile(&self, position: SlotPosition) -> &Profile {
        &self.profiles[position.time]
    }

    /// Substitute for a missing slot: last week's value, else yesterday's, else the one before;
    /// `None` at the start.
    pub(crate) fn substitute(&self) -> Option<f64> {
        let before = || self.value(self.shifted(self.next, -1)?);
        self.days_before(self.next, WEEK)
            .or_else(|| self.days_before(self.next, 1))
            .or_else(before)
    }

    pub(crate) fn store(&mut self, value: f64, asinh: f64) {
        let SlotPosition { slot, time, day } = self.next;
        self.values[time][day % DAYS] = value as f32;
        self.asinh[time][day % DAYS] = asinh as f32;
        let days = WEEK.min(day + 1);
        let mut sorted = [0.0; WEEK];
        let mut asinh = 0.0;
        for (back, position) in sorted.iter_mut().take(days).enumerate() {
            let index = (day - back) % DAYS;
            *position = self.values[time][index];
            asinh += self.asinh[time][index];
        }
        let sorted = &mut sorted[..days];
        sorted.sort_unstable_by(|a: &f32, b| b.partial_cmp(a).unwrap_or(Ordering::Equal));
        let mut largest = [f32::NEG_INFINITY; LARGEST];
        for (position, value) in largest.iter_mut().zip(sorted.iter()) {
            *position = *value;
        }
        let count = days as f32;
        self.profiles[time] = Profile {
            days: days as u32,
            mean: sorted.iter().sum::<f32>() / count,
            median: f32::midpoint(sorted[(days - 1) / 2], sorted[days / 2]),
            mean_asinh: asinh / count,
            largest,
        };
        let is_last = time + 1 == self.per_day;
        self.next = SlotPosition {
            slot: slot + 1,
            time: if is_last { 0 } else { time + 1 },
            day: day + usize::from(is_last),
        };
    }
}

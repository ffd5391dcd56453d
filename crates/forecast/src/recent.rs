//! How the last hour and the last day differ from their profile: for the level, and for what the
//! regression is told.

use crate::grid::Grid;
use crate::seasons::Seasons;

/// A sum over the last so many values.
#[derive(Clone, Debug)]
struct Window {
    values: Vec<f64>,
    next: usize,
    sum: f64,
}

impl Window {
    fn new(length: usize) -> Self {
        Self {
            values: vec![0.0; length],
            next: 0,
            sum: 0.0,
        }
    }

    fn push(&mut self, value: f64) {
        self.sum += value - self.values[self.next];
        self.values[self.next] = value;
        self.next += 1;
        if self.next == self.values.len() {
            self.next = 0;
            // Rounding must not pile up.
            self.sum = self.values.iter().sum();
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.values.len() as f64
    }
}

/// The newest slot and those before it, against their profile (in asinh), and the levels of the
/// last hour.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    /// The newest value.
    pub(crate) last: f64,
    /// The profile of the newest slot, in asinh.
    pub(crate) profile: Option<f64>,
    /// The newest slot less its profile.
    pub(crate) deviation: f64,
    hour: Window,
    day: Window,
    yesterday_hour: Window,
    week_hour: Window,
    values_hour: Window,
    profile_hour: Window,
}

impl Recent {
    pub(crate) fn new(grid: &Grid) -> Self {
        let hour = || Window::new(grid.per_hour);
        Self {
            last: 0.0,
            profile: None,
            deviation: 0.0,
            hour: hour(),
            day: Window::new(grid.per_day),
            yesterday_hour: hour(),
            week_hour: hour(),
            values_hour: hour(),
            profile_hour: hour(),
        }
    }

    /// Takes in the next slot, before it is stored among the seasons.
    pub(crate) fn push(&mut self, seasons: &Seasons, value: f64, asinh: f64) {
        self.last = value;
        let slot = seasons.next();
        let Some(yesterday) = seasons.asinh_days_before(slot, 1) else {
            return;
        };
        let profile = seasons.profile(slot);
        let (mean, usual) = (f64::from(profile.mean), f64::from(profile.mean_asinh));
        let week = seasons.asinh_days_before(slot, 7).unwrap_or(usual);
        self.profile = Some(usual);
        self.deviation = asinh - usual;
        self.hour.push(self.deviation);
        self.day.push(self.deviation);
        self.yesterday_hour.push(yesterday - usual);
        self.week_hour.push(week - usual);
        self.values_hour.push(value);
        self.profile_hour.push(mean);
    }

    /// How many times its profile the last hour was, between a fifth and five times.
    pub(crate) fn level(&self) -> f64 {
        let (values, profile) = (self.values_hour.sum, self.profile_hour.sum);
        if profile == 0.0 {
            1.0
        } else if values * profile <= 0.0 {
            0.2
        } else {
            (values / profile).clamp(0.2, 5.0)
        }
    }

    /// Mean deviation of the last hour and day from the profile; of yesterday's and last week's
    /// same hour from it.
    pub(crate) fn means(&self) -> [f64; 4] {
        [
            self.hour.mean(),
            self.day.mean(),
            self.yesterday_hour.mean(),
            self.week_hour.mean(),
        ]
    }
}

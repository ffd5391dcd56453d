//! Deviation of the last hour and day from their profile, for the level and the regression.

use crate::grid::Grid;
use crate::seasons::Seasons;

/// Sum over the last values.
#[derive(Clone, Debug)]
struct RollingSum {
    values: Vec<f64>,
    next: usize,
    sum: f64,
}

impl RollingSum {
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
            // Recomputed to limit rounding errors.
            self.sum = self.values.iter().sum();
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.values.len() as f64
    }
}

/// The newest slot and earlier ones against their profile (in asinh), and the levels of the last
/// hour.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    pub(crate) last: f64,
    /// The profile of the newest slot, in asinh.
    pub(crate) profile: Option<f64>,
    /// Difference of the newest slot from its profile.
    pub(crate) deviation: f64,
    hour: RollingSum,
    day: RollingSum,
    yesterday_hour: RollingSum,
    week_hour: RollingSum,
    values_hour: RollingSum,
    profile_hour: RollingSum,
}

impl Recent {
    pub(crate) fn new(grid: &Grid) -> Self {
        let hour = || RollingSum::new(grid.per_hour);
        Self {
            last: 0.0,
            profile: None,
            deviation: 0.0,
            hour: hour(),
            day: RollingSum::new(grid.per_day),
            yesterday_hour: hour(),
            week_hour: hour(),
            values_hour: hour(),
            profile_hour: hour(),
        }
    }

    /// Adds the next slot, before it is stored among the seasons.
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

    /// Ratio of the last hour to its profile, limited to 0.2 to 5.
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

    /// Mean deviations from the profile: last hour, last day, and the same hour of yesterday and of
    /// last week.
    pub(crate) fn means(&self) -> [f64; 4] {
        [
            self.hour.mean(),
            self.day.mean(),
            self.yesterday_hour.mean(),
            self.week_hour.mean(),
        ]
    }
}

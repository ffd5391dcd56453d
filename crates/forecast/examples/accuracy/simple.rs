//! Simple baselines: the last value, yesterday, last week, the mean of seven days, and that mean
//! times the level of the last hour.

pub(crate) const METHODS: usize = 5;
/// Days of history that each method needs before it differs from the last value.
pub(crate) const DAYS: [usize; METHODS] = [0, 1, 7, 1, 1];

/// Values so far, gaps filled with last week's, else yesterday's, else the last.
pub(crate) struct Simple {
    per_day: usize,
    per_hour: usize,
    values: Vec<f64>,
}

impl Simple {
    pub(crate) fn new(slot_seconds: u32) -> Self {
        let per = |seconds: u32| (seconds / slot_seconds).max(1) as usize;
        Self {
            per_day: per(86_400),
            per_hour: per(3600),
            values: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, value: Option<f64>) {
        let next = self.values.len();
        let filled = value
            .or_else(|| self.before(next, 7))
            .or_else(|| self.before(next, 1))
            .or(self.values.last().copied());
        self.values.extend(filled);
    }

    fn before(&self, slot: usize, days: usize) -> Option<f64> {
        self.values
            .get(slot.checked_sub(days * self.per_day)?)
            .copied()
    }

    fn mean(&self, slot: usize) -> Option<f64> {
        let days: Vec<f64> = (1..=7).filter_map(|days| self.before(slot, days)).collect();
        (!days.is_empty()).then(|| days.iter().sum::<f64>() / days.len() as f64)
    }

    /// Forecast of each method for the slot `ahead` slots after the newest.
    pub(crate) fn forecasts(&self, ahead: usize) -> [f64; METHODS] {
        let newest = self.values.len() - 1;
        let last = self.values[newest];
        let target = newest + ahead;
        let mean = self.mean(target).unwrap_or(last);
        let hour = (newest + 1).saturating_sub(self.per_hour)..=newest;
        let (now, usual) = hour
            .filter_map(|slot| Some((self.values[slot], self.mean(slot)?)))
            .fold((0.0, 0.0), |sum, (value, mean)| {
                (sum.0 + value, sum.1 + mean)
            });
        let level = if usual == 0.0 {
            1.0
        } else {
            (now / usual).clamp(0.2, 5.0)
        };
        let day = self.before(target, 1).unwrap_or(last);
        [
            last,
            day,
            self.before(target, 7).unwrap_or(day),
            mean,
            mean * level,
        ]
    }
}

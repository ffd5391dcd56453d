//! The two ends of the scale: no policy at all, and perfect knowledge of the next hour.

use jiff::Timestamp;

use crate::policy::Policy;
use crate::series::Series;

/// Keeps the provisioned request.
#[derive(Clone, Copy, Debug)]
pub struct Provisioned;

impl Policy for Provisioned {
    fn observe(&mut self, _at: Timestamp, _usage: f64) {}

    fn is_raised_by_oom(&self) -> bool {
        false
    }

    fn recommend(&mut self, _now: Timestamp, _request: f64) -> Option<f64> {
        None
    }
}

/// Recommends the largest usage of the next hour. Meant for an executor without a deadband.
#[derive(Clone, Debug)]
pub struct Oracle(Series);

impl Oracle {
    pub fn new(series: &Series) -> Self {
        Self(series.clone())
    }
}

impl Policy for Oracle {
    fn observe(&mut self, _at: Timestamp, _usage: f64) {}

    fn recommend(&mut self, now: Timestamp, _request: f64) -> Option<f64> {
        let series = &self.0;
        let next = usize::try_from((now.as_second() - series.start) / series.step).ok()?;
        let coming = series.usage.iter().skip(next).take(series.slots(3600));
        coming.copied().reduce(f64::max)
    }
}

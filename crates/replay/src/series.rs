//! Recorded usage of one container and resource, in slots of equal length.

use jiff::Timestamp;

/// Usage of one container and resource. A slot without a sample has the value of the slot before.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Start of the first slot in seconds since 1970.
    pub start: i64,
    /// Length of a slot in seconds.
    pub step: i64,
    /// Usage in millicores or MiB.
    pub usage: Vec<f64>,
    /// The request that its owner chose.
    pub provisioned: f64,
}

/// A time in seconds since 1970; the last possible one for seconds beyond it.
pub fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}

impl Series {
    /// The number of slots in a duration, at least one.
    pub fn slots(&self, seconds: i64) -> usize {
        usize::try_from(seconds / self.step).unwrap_or(1).max(1)
    }

    pub fn peak(&self) -> f64 {
        self.usage.iter().copied().fold(0.0, f64::max)
    }

    /// A series from samples in the order of time; `None` without samples.
    pub fn from_samples(step: i64, samples: impl IntoIterator<Item = (i64, f64)>) -> Option<Self> {
        let mut samples = samples.into_iter().peekable();
        let start = samples.peek()?.0.div_euclid(step) * step;
        let mut usage: Vec<f64> = Vec::new();
        for (time, value) in samples {
            let slot = usize::try_from((time - start) / step).ok()?;
            let before = usage.last().copied().unwrap_or(value);
            usage.resize((slot + 1).max(usage.len()), before);
            usage[slot] = value;
        }
        let mut series = Self {
            start,
            step,
            usage,
            provisioned: 0.0,
        };
        series.provisioned = series.peak();
        Some(series)
    }
}

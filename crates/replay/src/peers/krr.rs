//! KRR's simple strategy: a percentile of CPU usage, the largest memory usage plus a margin, over
//! the last 14 days.
//!
//! Source: robusta-dev/krr `robusta_krr/strategies/simple.py` with its defaults (95 % for CPU, 15 %
//! for memory). Hourly histograms of 2 % wide buckets stand for the samples.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

use crate::policy::{Policy, Resource};

const HOUR: i64 = 3600;
const HOURS: i64 = 14 * 24;
const GROWTH: f64 = 1.02;

#[derive(Clone, Debug)]
pub struct Krr {
    /// The percentile as a fraction; 1 is the maximum.
    fraction: f64,
    /// Margin as a share of the percentile.
    margin: f64,
    /// Samples by bucket of each hour, oldest first.
    hours: VecDeque<(i64, BTreeMap<u16, u32>)>,
    counts: BTreeMap<u16, u32>,
    samples: u32,
}

impl Krr {
    pub fn new(resource: Resource) -> Self {
        match resource {
            Resource::Cpu => Self::with(0.95, 0.0),
            Resource::Memory => Self::with(1.0, 0.15),
        }
    }

    /// A percentile (0 to 1) and a margin, as fractions.
    pub fn with(fraction: f64, margin: f64) -> Self {
        Self {
            fraction,
            margin,
            hours: VecDeque::new(),
            counts: BTreeMap::new(),
            samples: 0,
        }
    }

    fn forget_before(&mut self, hour: i64) {
        while let Some((_, counts)) = self.hours.pop_front_if(|(oldest, _)| *oldest < hour) {
            for (bucket, count) in counts {
                self.samples -= count;
                *self.counts.entry(bucket).or_default() -= count;
            }
        }
    }
}

impl Policy for Krr {
    fn observe(&mut self, _pod: usize, at: Timestamp, usage: f64) {
        let hour = at.as_second().div_euclid(HOUR);
        self.forget_before(hour - HOURS + 1);
        let bucket = (usage.max(1.0).ln() / GROWTH.ln()).ceil() as u16;
        if self.hours.back().is_none_or(|(newest, _)| *newest < hour) {
            self.hours.push_back((hour, BTreeMap::new()));
        }
        if let Some((_, counts)) = self.hours.back_mut() {
            *counts.entry(bucket).or_default() += 1;
        }
        *self.counts.entry(bucket).or_default() += 1;
        self.samples += 1;
    }

    fn recommend(&mut self, _now: Timestamp, _request: f64) -> Option<f64> {
        let needed = self.fraction * f64::from(self.samples);
        let mut sum = 0.0;
        let reached = self.counts.iter().find(|(_, count)| {
            sum += f64::from(**count);
            sum >= needed && **count > 0
        });
        reached.map(|(bucket, _)| GROWTH.powi(i32::from(*bucket)) * (1.0 + self.margin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_counts_for_fourteen_days() {
        let at = |hour: i64| Timestamp::from_second(hour * HOUR).expect("a time");
        let mut krr = Krr::new(Resource::Memory);
        assert_eq!(krr.recommend(at(0), 0.0), None);
        krr.observe(0, at(0), 1000.0);
        krr.observe(0, at(HOURS - 1), 100.0);
        let peak = |krr: &mut Krr| krr.recommend(at(HOURS), 0.0).unwrap_or(0.0) / 1.15;
        assert!((1000.0..1020.0).contains(&peak(&mut krr)));
        krr.observe(0, at(HOURS), 50.0);
        assert!((100.0..102.0).contains(&peak(&mut krr)));
    }
}

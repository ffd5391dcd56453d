//! The target that a recommender has which lived through a trace, from the published description of
//! the algorithm:
//!
//! * CPU: every minute is a sample; memory: the peak of every 24 hours of a pod is a sample, dated
//!   at their end;
//! * a sample counts half as much as one that is a day younger;
//! * the 90th percentile, as the end of its bucket (the first has 10 millicores or 10 MB, each
//!   further one 5 % more), plus 15 %.

use anyhow::{Context as _, Result};

const DAY: f64 = 86_400.0;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Minute {
    pub(crate) second: i64,
    pub(crate) millicores: f64,
    pub(crate) bytes: f64,
}

impl Minute {
    /// A line of a trace: seconds, millicores, mebibytes.
    pub(crate) fn parse(line: &str) -> Result<Self> {
        let mut fields = line.split(',');
        let mut field = || fields.next().context("a field is missing");
        let second = field()?.parse()?;
        Ok(Self {
            second,
            millicores: field()?.parse()?,
            bytes: field()?.parse::<f64>()? * 1024.0 * 1024.0,
        })
    }
}

/// Cores and bytes, when a pod ended before minute `takeover` and another one began with it.
pub(crate) fn expected(trace: &[Minute], takeover: usize) -> (f64, f64) {
    let cpu = trace
        .iter()
        .map(|minute| (minute.millicores / 1000.0, minute.second as f64))
        .collect();
    let (gone, live) = trace.split_at(takeover);
    let windows = [gone, live].into_iter().flat_map(|pod| pod.chunks(24 * 60));
    let peak = |window: &[Minute]| window.iter().map(|minute| minute.bytes).fold(0.0, f64::max);
    let memory = windows
        .map(|window| (peak(window), window[0].second as f64 + DAY))
        .collect();
    (target(cpu, 0.01), target(memory, 1e7))
}

/// `samples`: value and time in seconds.
fn target(mut samples: Vec<(f64, f64)>, first_bucket: f64) -> f64 {
    let newest = samples
        .iter()
        .map(|(_, second)| *second)
        .fold(0.0, f64::max);
    let weight = |second: f64| ((second - newest) / DAY).exp2();
    samples.sort_by(|one, other| one.0.total_cmp(&other.0));
    let total: f64 = samples.iter().map(|(_, second)| weight(*second)).sum();
    let mut sum = 0.0;
    let percentile = samples.iter().find(|(_, second)| {
        sum += weight(*second);
        sum >= 0.9 * total
    });
    let value = percentile.map_or(0.0, |(value, _)| *value);
    bucket_end(value, first_bucket) * 1.15
}

fn bucket_end(value: f64, first: f64) -> f64 {
    let end = |bucket: i32| first * (1.05_f64.powi(bucket + 1) - 1.0) / 0.05;
    (0..200).map(end).find(|end| value < *end).unwrap_or(value)
}

#[test]
fn constant_usage_has_the_target_that_upstream_gives_it() {
    let minute = |second| Minute {
        second,
        millicores: 500.0,
        bytes: 1024.0 * 1024.0 * 1024.0,
    };
    let trace: Vec<Minute> = (0..1440).map(|index| minute(index * 60)).collect();
    let (cores, bytes) = expected(&trace, 720);
    assert!(
        (cores - 0.587).abs() < 0.001 && (bytes - 1_238_659_775.0).abs() < 1000.0,
        "{cores} {bytes}"
    );
}

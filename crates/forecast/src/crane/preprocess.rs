//! Crane's preprocessing of a history: fill gaps, cut to whole hours, remove outliers.
//!
//! Only samples after the last gap of more than an hour are kept. Shorter gaps are interpolated
//! linearly. A sample that is not a whole number of steps after its predecessor is an error. The
//! oldest samples are cut until a whole number of hours is left. Values above the 99.9th or below
//! the 0.1th percentile are replaced by the value before them. Source: gocrane/crane
//! `pkg/prediction/dsp/prediction.go` (`preProcessTimeSeries`) and `signal.go`.

use super::DspError;

const HOUR_SECONDS: i64 = 3600;
const OUTLIERS: [f64; 2] = [0.1, 99.9];

/// Equidistant values without gaps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegularSeries {
    /// Time of the first value, in seconds since 1970; `None` without values.
    pub first_second: Option<i64>,
    /// The values, oldest first.
    pub values: Vec<f64>,
}

/// Fills gaps, cuts to whole hours and removes outliers. Samples are (second since 1970, value),
/// oldest first.
pub fn preprocess(samples: &[(i64, f64)], step_seconds: u32) -> Result<RegularSeries, DspError> {
    let step = i64::from(step_seconds);
    if samples.is_empty() || step == 0 || step > HOUR_SECONDS {
        return Err(DspError::NoSamples);
    }
    let mut start = 0;
    for (index, pair) in samples.windows(2).enumerate() {
        let [before, after] = pair else { continue };
        let distance = after.0.saturating_sub(before.0);
        if distance > HOUR_SECONDS {
            start = index + 1;
        } else if distance <= 0 || distance % step != 0 {
            return Err(DspError::Irregular { at_second: after.0 });
        }
    }
    let kept = samples.get(start..).unwrap_or_default();
    let mut values = fill(kept, step);
    let per_hour = (HOUR_SECONDS / step) as usize;
    let surplus = values.len() % per_hour;
    values.drain(..surplus);
    replace_outliers(&mut values);
    let first = kept.first();
    let first = first.map(|(second, _)| second + surplus as i64 * step);
    Ok(RegularSeries {
        first_second: first.filter(|_| !values.is_empty()),
        values,
    })
}

fn fill(samples: &[(i64, f64)], step: i64) -> Vec<f64> {
    let first = samples.iter().take(1);
    let mut values: Vec<f64> = first.map(|(_, value)| *value).collect();
    for pair in samples.windows(2) {
        let [(before_second, before), (second, value)] = pair else {
            continue;
        };
        let steps = (second - before_second) / step;
        let rise = (value - before) / steps as f64;
        values.extend((1..steps).map(|number| before + rise * number as f64));
        values.push(*value);
    }
    values
}

fn replace_outliers(values: &mut [f64]) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [Some(low), Some(high)] = OUTLIERS.map(|percent| percentile(&sorted, percent)) else {
        return;
    };
    let mut before = None;
    for value in values {
        if let Some(before) = before
            && (*value > high || *value < low)
        {
            *value = before;
        }
        before = Some(*value);
    }
}

/// The value at rank `percent` of a sorted list, or the mean of its two neighbours; `None` if the
/// rank lies before the first value.
fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    if let [only] = sorted {
        return Some(*only);
    }
    let rank = percent / 100.0 * sorted.len() as f64;
    let below = (rank as usize).checked_sub(1)?;
    let (value, next) = (sorted.get(below)?, sorted.get(below + 1));
    let next = next.filter(|_| rank.fract() != 0.0);
    Some(next.map_or(*value, |next| f64::midpoint(*value, *next)))
}

//! The value of a prediction: the maximum of the window that begins now.
//!
//! If the prediction does not reach the end of that window, the last window that it covers counts:
//! `as of = min(now, last sample - window)`, `age = now - as of`. Beyond a limit of the age there
//! is no value.

use scaling::{NoPrediction, Predicted, window_maximum};
use view::PredictedMetric;

/// The longest step between two samples that extends the limit.
const LONGEST_STEP_SECONDS: i64 = 3600;

/// A value, and the start of its window in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Forecast {
    pub(super) value: f64,
    pub(super) at_seconds: i64,
}

const NOT_READY: &str = "the TimeSeriesPrediction is not ready";

/// Returns the value of a prediction for a window of `window_seconds`, or the reason that it has
/// none.
pub(super) fn forecast(
    metric: &PredictedMetric,
    window_seconds: i32,
    now_seconds: i64,
    grace_seconds: i64,
) -> Result<Forecast, String> {
    let samples = match metric.series.as_slice() {
        [samples] if metric.ready => samples,
        [] | [_] => return Err(NOT_READY.to_owned()),
        several => {
            let count = several.len();
            return Err(format!(
                "the TimeSeriesPrediction has {count} series, and only one can be served"
            ));
        }
    };
    let last = samples.iter().map(|(at, _)| *at).max().ok_or(NOT_READY)?;
    let at_seconds = now_seconds.min(last.saturating_sub(window_seconds.into()));
    let age_seconds = now_seconds.saturating_sub(at_seconds);
    // A prediction is not renewed between two of its samples.
    let limit_seconds = grace_seconds.max(step(samples));
    if age_seconds > limit_seconds {
        return Err(format!(
            "the TimeSeriesPrediction ended its last whole window {age_seconds}s ago, limit {limit_seconds}s"
        ));
    }
    let predicted = Predicted {
        identifier: &metric.identifier,
        ready: metric.ready,
        series: metric.series.as_slice(),
    };
    let window = at_seconds..=at_seconds.saturating_add(window_seconds.into());
    match window_maximum(&[predicted], &metric.identifier, at_seconds, window_seconds) {
        Ok(value) => Ok(Forecast { value, at_seconds }),
        // Crane treats a prediction of zero as a missing one, and so keeps a workload from
        // shrinking in the quietest hours.
        Err(NoPrediction::Outdated) if samples.iter().any(|(at, _)| window.contains(at)) => {
            Ok(Forecast {
                value: 0.0,
                at_seconds,
            })
        }
        Err(_) => Err("the TimeSeriesPrediction has no sample in the window".to_owned()),
    }
}

fn step(samples: &[(i64, f64)]) -> i64 {
    match samples {
        [.., (before, _), (last, _)] => last.saturating_sub(*before).clamp(0, LONGEST_STEP_SECONDS),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Series = Vec<(i64, f64)>;

    const WINDOW: i32 = 600;
    const GRACE: i64 = 300;

    /// Values every minute from second 0 on.
    fn series(values: &[f64]) -> Series {
        let minutes = (0..).map(|minute| minute * 60);
        minutes.zip(values.iter().copied()).collect()
    }

    fn check(ready: bool, series: &[Series], now: i64, expected: &Result<(f64, i64), String>) {
        let metric = PredictedMetric {
            identifier: "resource.cpu".into(),
            ready,
            series: series.to_vec(),
        };
        let found = forecast(&metric, WINDOW, now, GRACE)
            .map(|forecast| (forecast.value, forecast.at_seconds));
        assert_eq!(&found, expected, "{series:?} at {now}");
    }

    fn stale(age_seconds: i64, limit_seconds: i64) -> Result<(f64, i64), String> {
        Err(format!(
            "the TimeSeriesPrediction ended its last whole window {age_seconds}s ago, limit {limit_seconds}s"
        ))
    }

    /// Twenty minutes, with a peak of 5 after nine of them and one of 3 at the end.
    fn twenty_minutes() -> Series {
        let mut values = [1.0; 21];
        values[9] = 5.0;
        values[20] = 3.0;
        series(&values)
    }

    #[test]
    fn the_largest_value_of_the_window_counts() {
        check(true, &[twenty_minutes()], 0, &Ok((5.0, 0)));
        check(true, &[twenty_minutes()], 540, &Ok((5.0, 540)));
        check(true, &[twenty_minutes()], 541, &Ok((1.0, 541)));
        check(true, &[twenty_minutes()], 600, &Ok((3.0, 600)));
    }

    #[test]
    fn the_last_complete_window_counts_for_a_grace_period() {
        check(true, &[twenty_minutes()], 601, &Ok((3.0, 600)));
        check(true, &[twenty_minutes()], 900, &Ok((3.0, 600)));
        check(true, &[twenty_minutes()], 901, &stale(301, 300));
        // A peak that has just passed still counts, so a prediction that is not renewed shrinks
        // nothing.
        let mut falling = vec![1.0; 11];
        falling[0] = 8.0;
        check(true, &[series(&falling)], 0, &Ok((8.0, 0)));
        check(true, &[series(&falling)], 120, &Ok((8.0, 0)));
    }

    #[test]
    fn a_prediction_is_not_renewed_between_two_of_its_samples() {
        let hourly = [vec![(0, 1.0), (1800, 2.0), (3600, 4.0)]];
        check(true, &hourly, 4800, &Ok((4.0, 3000)));
        check(true, &hourly, 4801, &stale(1801, 1800));
    }

    #[test]
    fn a_prediction_of_zero_has_a_value() {
        check(true, &[series(&[0.0; 21])], 0, &Ok((0.0, 0)));
        check(true, &[series(&[-1.0; 21])], 0, &Ok((0.0, 0)));
    }

    #[test]
    fn without_exactly_one_ready_series_there_is_no_value() {
        let not_ready = Err(NOT_READY.to_owned());
        check(false, &[twenty_minutes()], 0, &not_ready);
        check(true, &[], 0, &not_ready);
        check(true, &[vec![]], 0, &not_ready);
        let two = [twenty_minutes(), twenty_minutes()];
        let several = "the TimeSeriesPrediction has 2 series, and only one can be served";
        check(true, &two, 0, &Err(several.to_owned()));
        let gap = [vec![(0, 1.0), (7200, 1.0)]];
        let no_sample = "the TimeSeriesPrediction has no sample in the window";
        check(true, &gap, 60, &Err(no_sample.to_owned()));
        let first = [vec![(i64::MIN, 1.0)]];
        check(true, &first, 0, &stale(i64::MAX, 300));
    }
}

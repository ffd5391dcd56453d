//! Published series of a prediction: limits on their points, far below the 1.5 MB that the API
//! server accepts, and their form in the status.

use api::prediction::{PredictedSample, PredictedSeries, SeriesLabel};
use model::{ForecastSeries, MetricForecast};

/// Maximum number of points of one series: a day of minutes.
pub(super) const MAX_SERIES_POINTS: usize = 1440;
/// Maximum number of points of one prediction: about half a megabyte.
const MAX_PREDICTION_POINTS: usize = 10_000;

/// Makes steps longer where there are too many points. A longer step has the largest of its values.
pub(super) fn thin(metrics: &mut [MetricForecast]) {
    let count: usize = metrics.iter().map(|metric| metric.series.len()).sum();
    let most = (MAX_PREDICTION_POINTS / count.max(1)).clamp(1, MAX_SERIES_POINTS);
    for series in metrics.iter_mut().flat_map(|metric| &mut metric.series) {
        thin_series(series, most);
    }
}

/// Makes the step of one series longer if it has more than `max` points.
pub(super) fn thin_series(series: &mut ForecastSeries, most: usize) {
    let factor = series.values.len().div_ceil(most.max(1));
    if factor > 1 {
        let largest = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        series.values = series.values.chunks(factor).map(largest).collect();
        let factor = u32::try_from(factor).unwrap_or(u32::MAX);
        series.step_seconds = series.step_seconds.saturating_mul(factor);
    }
}

pub(super) fn write(series: &ForecastSeries) -> PredictedSeries {
    let label = |(name, value): (&String, &String)| SeriesLabel {
        name: name.clone(),
        value: value.clone(),
    };
    let sample = |(timestamp, value): (i64, f64)| PredictedSample {
        value: format!("{value:.5}"),
        timestamp,
    };
    PredictedSeries {
        labels: series.labels.iter().map(label).collect(),
        samples: series.points().map(sample).collect(),
    }
}

/// A series of a status; `None` unless its points are equidistant.
pub(super) fn read(written: &PredictedSeries) -> Option<ForecastSeries> {
    let first_second = written.samples.first()?.timestamp;
    let second = written.samples.get(1);
    let step = second.map_or(60, |second| second.timestamp.saturating_sub(first_second));
    let step_seconds = u32::try_from(step).ok().filter(|step| *step > 0)?;
    let value = |sample: &PredictedSample| {
        let value = sample.value.parse().ok();
        value.filter(|value: &f64| value.is_finite())
    };
    let values = written.samples.iter().map(value);
    let label = |label: &SeriesLabel| (label.name.clone(), label.value.clone());
    let series = ForecastSeries {
        labels: written.labels.iter().map(label).collect(),
        first_second,
        step_seconds,
        values: values.collect::<Option<_>>()?,
    };
    let is_same = |((at, _), sample): ((i64, f64), &PredictedSample)| at == sample.timestamp;
    let is_regular = series.points().zip(&written.samples).all(is_same);
    is_regular.then_some(series)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(count: usize) -> ForecastSeries {
        let values = (0..count).map(|number| number as f64).collect();
        ForecastSeries {
            first_second: 1_700_000_040,
            step_seconds: 60,
            values,
            ..ForecastSeries::default()
        }
    }

    fn check(counts: &[usize], expected: &[(usize, u32)]) {
        let metric = |count: &usize| MetricForecast {
            series: vec![series(*count)],
            ..MetricForecast::default()
        };
        let mut metrics: Vec<_> = counts.iter().map(metric).collect();
        thin(&mut metrics);
        let thinned = metrics.iter().flat_map(|metric| &metric.series);
        for ((series, expected), count) in thinned.zip(expected).zip(counts) {
            assert_eq!((series.values.len(), series.step_seconds), *expected);
            let last = count.checked_sub(1).map(|last| last as f64);
            assert_eq!(series.values.last().copied(), last);
        }
        assert_eq!(metrics.len(), expected.len());
    }

    #[test]
    fn longer_steps_keep_the_largest_values() {
        check(&[120], &[(120, 60)]);
        check(&[1440, 1441], &[(1440, 60), (721, 120)]);
        check(&[240; 100], &[(80, 180); 100]);
        check(&[0], &[(0, 60)]);
    }

    #[test]
    fn a_written_series_is_parsed_to_the_same_value() {
        let mut series = series(3);
        series.labels.insert("pod".to_owned(), "web-1".to_owned());
        let mut written = write(&series);
        assert_eq!(written.samples[2].value, "2.00000");
        assert_eq!(read(&written), Some(series));
        written.samples[2].timestamp += 1;
        assert_eq!(read(&written), None);
        assert_eq!(read(&PredictedSeries::default()), None);
    }
}

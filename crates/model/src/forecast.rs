//! Forecast demand of one `TimeSeriesPrediction`.

use std::collections::BTreeMap;

use jiff::Timestamp;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forecast {
    /// UID of the object. A recreated object has another one.
    pub uid: String,
    pub namespace: String,
    pub name: String,
    pub observed_generation: i64,
    /// Forecasts of its metrics, in the order of the object.
    pub metrics: Vec<MetricForecast>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricForecast {
    /// The `resourceIdentifier`, such as `resource.cpu`.
    pub identifier: String,
    /// Whether the forecast covers the whole window of the object.
    pub is_ready: bool,
    /// Reason for not being ready, or another note. May be empty.
    pub reason: String,
    /// Time of computation; `None` without series.
    pub made_at: Option<Timestamp>,
    /// Forecast series. The adapter serves a metric with exactly one.
    pub series: Vec<ForecastSeries>,
}

/// Equidistant values: cores, bytes, or the unit of the metric.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ForecastSeries {
    pub labels: BTreeMap<String, String>,
    /// Time of the first value, in seconds since 1970.
    pub first_second: i64,
    /// Distance between values.
    pub step_seconds: u32,
    /// Values in order of time.
    pub values: Vec<f64>,
}

impl Forecast {
    pub fn metric(&self, identifier: &str) -> Option<&MetricForecast> {
        self.metrics
            .iter()
            .find(|metric| metric.identifier == identifier)
    }
}

impl ForecastSeries {
    /// The values with their time in seconds since 1970.
    pub fn points(&self) -> impl Iterator<Item = (i64, f64)> + '_ {
        let at = |index: usize| {
            let ahead = i64::from(self.step_seconds)
                .saturating_mul(i64::try_from(index).unwrap_or(i64::MAX));
            self.first_second.saturating_add(ahead)
        };
        self.values
            .iter()
            .enumerate()
            .map(move |(index, value)| (at(index), *value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_a_step_apart() {
        let series = ForecastSeries {
            first_second: 1_700_000_100,
            step_seconds: 60,
            values: vec![1.5, 0.25],
            ..ForecastSeries::default()
        };
        let points: Vec<_> = series.points().collect();
        assert_eq!(points, [(1_700_000_100, 1.5), (1_700_000_160, 0.25)]);
    }
}

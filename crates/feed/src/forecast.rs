//! What is told about one `TimeSeriesPrediction` object, and how it looks in the protocol.

mod topic;

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::proto;
use crate::quantities::MessageError;

/// The forecast for one `TimeSeriesPrediction` object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forecast {
    /// The object's unique identifier; an object of the same name made later has another.
    pub uid: String,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's generation for which this was made.
    pub observed_generation: i64,
    /// Its metrics, in the order of the object.
    pub metrics: Vec<MetricForecast>,
}

/// What one metric will be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricForecast {
    /// Its `resourceIdentifier`, such as `resource.cpu`.
    pub identifier: String,
    /// Whether the whole window of the object is forecast.
    pub is_ready: bool,
    /// Why it is not, in words; also what else is worth knowing. May be empty.
    pub reason: String,
    /// When the series were made; absent while there are none.
    pub made_at: Option<Timestamp>,
    /// The series. The adapter serves a metric that has exactly one.
    pub series: Vec<ForecastSeries>,
}

/// Values at a fixed distance: cores, bytes, or whatever the metric counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ForecastSeries {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// When the first value is expected, in seconds since 1970.
    pub first_second: i64,
    /// The distance of the values.
    pub step_seconds: u32,
    /// The values.
    pub values: Vec<f64>,
}

impl Forecast {
    /// The metric of this identifier.
    pub fn metric(&self, identifier: &str) -> Option<&MetricForecast> {
        self.metrics
            .iter()
            .find(|metric| metric.identifier == identifier)
    }
}

impl ForecastSeries {
    /// Seconds since 1970, and what is expected then.
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

impl From<MetricForecast> for proto::MetricForecast {
    fn from(metric: MetricForecast) -> Self {
        let MetricForecast {
            identifier,
            is_ready,
            reason,
            made_at,
            series,
        } = metric;
        let series = series.into_iter().map(|series| {
            let ForecastSeries {
                labels,
                first_second,
                step_seconds,
                values,
            } = series;
            proto::ForecastSeries {
                labels: labels.into_iter().collect(),
                first_second,
                step_seconds,
                values,
            }
        });
        Self {
            identifier,
            is_ready,
            reason,
            made_at_ms: made_at.map_or(0, Timestamp::as_millisecond),
            series: series.collect(),
        }
    }
}

impl TryFrom<proto::MetricForecast> for MetricForecast {
    type Error = MessageError;

    fn try_from(message: proto::MetricForecast) -> Result<Self, MessageError> {
        let proto::MetricForecast {
            identifier,
            is_ready,
            reason,
            made_at_ms,
            series,
        } = message;
        let read = |series: proto::ForecastSeries| {
            let proto::ForecastSeries {
                labels,
                first_second,
                step_seconds,
                values,
            } = series;
            if let Some(value) = values.iter().find(|value| !value.is_finite()) {
                return Err(MessageError::Number {
                    field: format!("{identifier}.values"),
                    value: value.to_string(),
                });
            }
            Ok(ForecastSeries {
                labels: labels.into_iter().collect(),
                first_second,
                step_seconds,
                values,
            })
        };
        let series = series.into_iter().map(read).collect::<Result<_, _>>()?;
        let made_at = Timestamp::from_millisecond(made_at_ms)
            .ok()
            .filter(|_| made_at_ms != 0);
        Ok(Self {
            identifier,
            is_ready,
            reason,
            made_at,
            series,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::{Change, Topic as _};

    fn forecast() -> Forecast {
        let series = ForecastSeries {
            labels: BTreeMap::from([("pod".to_owned(), "web-1".to_owned())]),
            first_second: 1_700_000_100,
            step_seconds: 60,
            values: vec![1.5, 0.25],
        };
        let ready = MetricForecast {
            identifier: "resource.cpu".to_owned(),
            is_ready: true,
            reason: String::new(),
            made_at: Timestamp::from_millisecond(1_700_000_000_123).ok(),
            series: vec![series],
        };
        let missing = MetricForecast {
            identifier: "pods.http_requests".to_owned(),
            reason: "too little history".to_owned(),
            ..MetricForecast::default()
        };
        Forecast {
            uid: "u-1".to_owned(),
            namespace: "shop".to_owned(),
            name: "ehpa-web".to_owned(),
            observed_generation: 7,
            metrics: vec![ready, missing],
        }
    }

    #[test]
    fn what_is_told_is_what_is_heard() {
        let told = forecast();
        let message = told.to_message(5, Timestamp::from_millisecond(17).unwrap());
        let stamp = Forecast::stamp(&message);
        assert_eq!(
            (
                stamp.uid.as_str(),
                stamp.revision,
                stamp.changed_at.as_millisecond()
            ),
            ("u-1", 5, 17)
        );
        assert_eq!(Forecast::from_message(message), Ok(told));
    }

    #[test]
    fn changes_keep_their_kind_and_term() {
        let message = forecast().to_message(1, Timestamp::UNIX_EPOCH);
        for change in [
            Change::Reset {
                values: vec![message.clone()],
                first: true,
                complete: false,
            },
            Change::Apply(vec![message]),
            Change::Delete(vec!["u-1".to_owned()]),
        ] {
            assert_eq!(
                Forecast::unpack(Forecast::pack(9, change.clone())),
                (9, Some(change))
            );
        }
    }

    #[test]
    fn a_value_that_is_no_number_is_named() {
        let mut told = forecast();
        told.metrics[0].series[0].values[1] = f64::NAN;
        let error = Forecast::from_message(told.to_message(1, Timestamp::UNIX_EPOCH)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "resource.cpu.values: NaN is not a finite number"
        );
    }

    #[test]
    fn points_are_a_step_apart() {
        let points: Vec<_> = forecast().metrics[0].series[0].points().collect();
        assert_eq!(points, [(1_700_000_100, 1.5), (1_700_000_160, 0.25)]);
    }
}

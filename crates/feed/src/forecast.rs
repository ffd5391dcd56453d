//! Protocol messages of a [`Forecast`], and its feed topic.

use anyhow::bail;
use jiff::Timestamp;
pub use model::{Forecast, ForecastSeries, MetricForecast};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::proto;
use crate::proto::feed_client::FeedClient;
use crate::topic::{Change, Stamp, Topic, updates};

impl From<MetricForecast> for proto::MetricForecast {
    fn from(metric: MetricForecast) -> Self {
        let series = metric
            .series
            .into_iter()
            .map(|series| proto::ForecastSeries {
                labels: series.labels.into_iter().collect(),
                first_second: series.first_second,
                step_seconds: series.step_seconds,
                values: series.values,
            });
        Self {
            identifier: metric.identifier,
            is_ready: metric.is_ready,
            reason: metric.reason,
            made_at_ms: metric.made_at.map_or(0, Timestamp::as_millisecond),
            series: series.collect(),
        }
    }
}

impl TryFrom<proto::MetricForecast> for MetricForecast {
    type Error = anyhow::Error;

    fn try_from(message: proto::MetricForecast) -> anyhow::Result<Self> {
        let read = |series: proto::ForecastSeries| {
            if let Some(value) = series.values.iter().find(|value| !value.is_finite()) {
                let name = &message.identifier;
                bail!("{name}.values: {value} is not a finite number");
            }
            Ok(ForecastSeries {
                labels: series.labels.into_iter().collect(),
                first_second: series.first_second,
                step_seconds: series.step_seconds,
                values: series.values,
            })
        };
        let series = message.series.into_iter().map(read);
        let series = series.collect::<anyhow::Result<_>>()?;
        let made_at = Timestamp::from_millisecond(message.made_at_ms).ok();
        Ok(Self {
            identifier: message.identifier,
            is_ready: message.is_ready,
            reason: message.reason,
            made_at: made_at.filter(|_| message.made_at_ms != 0),
            series,
        })
    }
}

impl Topic for Forecast {
    updates! {
        Forecast, ForecastsUpdate as forecasts_update, ForecastsReset, ForecastsApply,
        ForecastsDelete, forecasts, watch_forecasts(WatchForecastsRequest)
    }

    const NOUN: &'static str = "forecast";

    fn size(&self) -> usize {
        const NUMBERS: usize = 64;
        const VALUE: usize = 8;
        let metric = |metric: &MetricForecast| {
            let series = metric.series.iter().map(|series| {
                let labels = series
                    .labels
                    .iter()
                    .map(|(name, value)| name.len() + value.len() + VALUE);
                NUMBERS + VALUE * series.values.len() + labels.sum::<usize>()
            });
            NUMBERS + metric.identifier.len() + metric.reason.len() + series.sum::<usize>()
        };
        let names = self.uid.len() + self.namespace.len() + self.name.len();
        NUMBERS + names + self.metrics.iter().map(metric).sum::<usize>()
    }

    fn to_message(&self, revision: u64, changed_at: Timestamp) -> proto::Forecast {
        proto::Forecast {
            uid: self.uid.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            observed_generation: self.observed_generation,
            revision,
            changed_at_ms: changed_at.as_millisecond(),
            metrics: self.metrics.iter().cloned().map(Into::into).collect(),
        }
    }

    fn from_message(message: proto::Forecast) -> anyhow::Result<Self> {
        let metrics = message.metrics.into_iter().map(MetricForecast::try_from);
        Ok(Self {
            uid: message.uid,
            namespace: message.namespace,
            name: message.name,
            observed_generation: message.observed_generation,
            metrics: metrics.collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::topic::Change;

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
    fn a_message_is_parsed_to_the_same_value() {
        let value = forecast();
        let message = value.to_message(5, Timestamp::from_millisecond(17).unwrap());
        let stamp = Forecast::stamp(&message);
        assert_eq!(
            (
                stamp.uid.as_str(),
                stamp.revision,
                stamp.changed_at.as_millisecond()
            ),
            ("u-1", 5, 17)
        );
        assert_eq!(Forecast::from_message(message).ok(), Some(value));
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
        let mut value = forecast();
        value.metrics[0].series[0].values[1] = f64::NAN;
        let error = Forecast::from_message(value.to_message(1, Timestamp::UNIX_EPOCH)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "resource.cpu.values: NaN is not a finite number"
        );
    }
}

//! Forecasts as a feed topic.

use jiff::Timestamp;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::{Forecast, MetricForecast};
use crate::proto;
use crate::proto::feed_client::FeedClient;
use crate::quantities::MessageError;
use crate::topic::{Change, Stamp, Topic, updates};

impl Topic for Forecast {
    type Message = proto::Forecast;
    type Update = proto::ForecastsUpdate;

    const NOUN: &'static str = "forecast";

    fn uid(&self) -> &str {
        &self.uid
    }

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

    fn from_message(message: proto::Forecast) -> Result<Self, MessageError> {
        let metrics = message.metrics.into_iter().map(MetricForecast::try_from);
        Ok(Self {
            uid: message.uid,
            namespace: message.namespace,
            name: message.name,
            observed_generation: message.observed_generation,
            metrics: metrics.collect::<Result<_, _>>()?,
        })
    }

    updates! {
        Forecast, ForecastsUpdate as forecasts_update, ForecastsReset, ForecastsApply,
        ForecastsDelete, forecasts, watch_forecasts(WatchForecastsRequest)
    }
}

//! Forecasts as a feed topic.

use jiff::Timestamp;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::{Forecast, MetricForecast};
use crate::proto;
use crate::proto::feed_client::FeedClient;
use crate::proto::{ForecastsApply, ForecastsDelete, ForecastsReset, ForecastsUpdate};
use crate::quantities::MessageError;
use crate::topic::{Change, Stamp, Topic};

use proto::forecasts_update::Change as Told;

impl Topic for Forecast {
    type Message = proto::Forecast;
    type Update = ForecastsUpdate;

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

    fn stamp(message: &proto::Forecast) -> Stamp {
        Stamp::new(&message.uid, message.revision, message.changed_at_ms)
    }

    fn pack(term: u64, change: Change<proto::Forecast>) -> ForecastsUpdate {
        let change = match change {
            Change::Reset {
                values,
                first,
                complete,
            } => Told::Reset(ForecastsReset {
                forecasts: values,
                first,
                complete,
            }),
            Change::Apply(forecasts) => Told::Apply(ForecastsApply { forecasts }),
            Change::Delete(uids) => Told::Delete(ForecastsDelete { uids }),
        };
        ForecastsUpdate {
            term,
            change: Some(change),
        }
    }

    fn unpack(update: ForecastsUpdate) -> (u64, Option<Change<proto::Forecast>>) {
        let change = update.change.map(|change| match change {
            Told::Reset(ForecastsReset {
                forecasts,
                first,
                complete,
            }) => Change::Reset {
                values: forecasts,
                first,
                complete,
            },
            Told::Apply(ForecastsApply { forecasts }) => Change::Apply(forecasts),
            Told::Delete(ForecastsDelete { uids }) => Change::Delete(uids),
        });
        (update.term, change)
    }

    async fn watch(mut client: FeedClient<Channel>) -> Result<Streaming<ForecastsUpdate>, Status> {
        Ok(client
            .watch_forecasts(proto::WatchForecastsRequest {})
            .await?
            .into_inner())
    }
}

//! What is known: the cluster as it was seen, and what the recommender tells.

use std::time::Duration;

use feed::{Forecast as FeedForecast, ForecastSeries, Subscription};
use jiff::Timestamp;
use view::{Freshness, PredictedMetric, Prediction, Resource, View};

use super::forecast::{Forecast, NoForecast, forecast};
use super::missing;
use crate::status_error::StatusError;
use crate::value::MilliValue;

/// Everything that an answer follows from.
#[derive(Clone, Copy)]
pub(super) struct Snapshot<'a> {
    pub(super) view: &'a View,
    pub(super) feed: Option<&'a Subscription<FeedForecast>>,
    /// The API server's time: predictions and windows of time go by it.
    pub(super) now: Timestamp,
    /// This machine's time: watches go by it.
    pub(super) machine_now: Timestamp,
    /// How long what was last known stands in for what should be.
    pub(super) grace: Duration,
}

impl Snapshot<'_> {
    /// Refuses to answer from what was never seen, or was seen too long ago.
    pub(super) fn ensure_fresh(
        &self,
        resource: Resource,
        metric: &str,
        grace: Duration,
    ) -> Result<(), StatusError> {
        let Some(Freshness {
            synced,
            stale_since,
            ..
        }) = self.view.freshness_of(resource)
        else {
            return Ok(());
        };
        let name = resource.name();
        if !synced {
            return Err(StatusError::Unavailable(format!(
                "{name} could not be read from the API server yet"
            )));
        }
        // After the clock was put back it is as old as that is far.
        let age = stale_since.map_or(0, |since| {
            self.machine_now
                .duration_since(since)
                .as_secs()
                .saturating_abs()
        });
        let limit = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        if age > limit {
            return Err(missing(
                metric,
                format_args!("{name} were last seen {age}s ago, limit {limit}s"),
            ));
        }
        Ok(())
    }

    /// What is predicted of all pods of a workload together, and when that was complete. What the
    /// recommender tells comes before what it wrote while it is heard, but what it wrote stands
    /// while it is still good.
    pub(super) fn total(
        &self,
        prediction: &Prediction,
        metric: &PredictedMetric,
        asked_as: &str,
    ) -> Result<(MilliValue, Timestamp), StatusError> {
        let (identifier, target) = (&metric.identifier, &prediction.target);
        let refused =
            |why: String| missing(asked_as, format_args!("{identifier} of {target}: {why}"));
        let Forecast { value, at_seconds } = match self.from_feed(prediction, identifier) {
            None => self
                .forecast(prediction, metric)
                .map_err(|why| refused(why.to_string()))?,
            Some((forecast_of_feed, reason)) => self
                .forecast(prediction, &forecast_of_feed)
                .or_else(|why| self.forecast(prediction, metric).map_err(|_| why))
                .map_err(|why| {
                    refused(if reason.is_empty() {
                        why.to_string()
                    } else {
                        format!("{why}: {reason}")
                    })
                })?,
        };
        let value = MilliValue::from_units(value)
            .ok_or_else(|| refused("the value is no number".to_owned()))?;
        let at = Timestamp::from_second(at_seconds).map_err(|error| refused(error.to_string()))?;
        Ok((value, at))
    }

    fn forecast(
        &self,
        prediction: &Prediction,
        metric: &PredictedMetric,
    ) -> Result<Forecast, NoForecast> {
        let grace_seconds = i64::try_from(self.grace.as_secs()).unwrap_or(i64::MAX);
        forecast(
            metric,
            prediction.window_seconds,
            self.now.as_second(),
            grace_seconds,
        )
    }

    /// What a recommender that is heard tells of a metric, and what it says in words.
    fn from_feed(
        &self,
        prediction: &Prediction,
        identifier: &str,
    ) -> Option<(PredictedMetric, &str)> {
        let forecast_of_feed = self
            .feed?
            .get_fresh(&prediction.uid)?
            .value
            .metric(identifier)?;
        let series = forecast_of_feed
            .series
            .iter()
            .map(|series| ForecastSeries::points(series).collect())
            .collect();
        Some((
            PredictedMetric {
                identifier: identifier.into(),
                ready: forecast_of_feed.is_ready,
                series,
            },
            &forecast_of_feed.reason,
        ))
    }
}

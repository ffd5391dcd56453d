//! A snapshot of the cluster and of the recommender's feed.

use std::time::Duration;

use feed::{Forecast as FeedForecast, ForecastSeries, Subscription};
use jiff::Timestamp;
use view::{Freshness, PredictedMetric, Prediction, Resource, View};

use super::missing;
use super::window_maximum::{Forecast, NoPredictedValue, forecast};
use crate::status_error::StatusError;
use crate::value::MilliValue;

/// A snapshot that a request is answered from.
#[derive(Clone, Copy)]
pub(super) struct Snapshot<'a> {
    pub(super) view: &'a View,
    pub(super) feed: Option<&'a Subscription<FeedForecast>>,
    /// The API server's time, for predictions and schedules.
    pub(super) now: Timestamp,
    /// The machine's time, for the age of watches.
    pub(super) machine_now: Timestamp,
    /// The time for which an expired prediction, or the last state of a broken watch, is still
    /// used.
    pub(super) grace: Duration,
}

impl Snapshot<'_> {
    /// Fails if a resource is not synced, or its watch has been broken for longer than `grace`.
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
        }) = self.view.freshness.get(&resource)
        else {
            return Ok(());
        };
        let name = resource.name();
        if !synced {
            return Err(StatusError::Unavailable(format!(
                "{name} could not be read from the API server yet"
            )));
        }
        // If the clock was set back, the state is as old as that step.
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

    /// Returns the predicted total of a workload, and the start of its window. Prefers the feed
    /// while it is connected; falls back to the status until that expires.
    pub(super) fn total(
        &self,
        prediction: &Prediction,
        metric: &PredictedMetric,
        requested_metric: &str,
    ) -> Result<(MilliValue, Timestamp), StatusError> {
        let (identifier, target) = (&metric.identifier, &prediction.target);
        let error = |why: String| {
            missing(
                requested_metric,
                format_args!("{identifier} of {target}: {why}"),
            )
        };
        let Forecast { value, at_seconds } = match self.feed_forecast(prediction, identifier) {
            None => self
                .forecast(prediction, metric)
                .map_err(|why| error(why.to_string()))?,
            Some((forecast, reason)) => self
                .forecast(prediction, &forecast)
                .or_else(|why| self.forecast(prediction, metric).map_err(|_| why))
                .map_err(|why| {
                    error(if reason.is_empty() {
                        why.to_string()
                    } else {
                        format!("{why}: {reason}")
                    })
                })?,
        };
        let value = MilliValue::from_units(value)
            .ok_or_else(|| error("the value is not a number".to_owned()))?;
        let at =
            Timestamp::from_second(at_seconds).map_err(|invalid| error(invalid.to_string()))?;
        Ok((value, at))
    }

    fn forecast(
        &self,
        prediction: &Prediction,
        metric: &PredictedMetric,
    ) -> Result<Forecast, NoPredictedValue> {
        let grace_seconds = i64::try_from(self.grace.as_secs()).unwrap_or(i64::MAX);
        forecast(
            metric,
            prediction.window_seconds,
            self.now.as_second(),
            grace_seconds,
        )
    }

    /// Returns the feed's prediction of a metric, with the recommender's message, while the feed is
    /// connected.
    fn feed_forecast(
        &self,
        prediction: &Prediction,
        identifier: &str,
    ) -> Option<(PredictedMetric, &str)> {
        let forecast = self
            .feed?
            .get_fresh(&prediction.uid)?
            .value
            .metric(identifier)?;
        let series = forecast
            .series
            .iter()
            .map(|series| ForecastSeries::points(series).collect())
            .collect();
        Some((
            PredictedMetric {
                identifier: identifier.into(),
                ready: forecast.is_ready,
                series,
            },
            &forecast.reason,
        ))
    }
}

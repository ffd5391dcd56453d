//! A snapshot of the cluster and of the recommender's feed.

use std::time::Duration;

use feed::{Forecast as FeedForecast, ForecastSeries, Subscription};
use jiff::Timestamp;
use view::{PredictedMetric, Prediction, Resource, View};

use super::window_maximum::{Forecast, forecast};
use super::{LAST_GOOD_VALUE_FOR, missing};
use crate::request::StatusError;
use crate::value::MilliValue;

#[derive(Clone, Copy)]
pub(super) struct Snapshot<'a> {
    pub(super) view: &'a View,
    pub(super) feed: Option<&'a Subscription<FeedForecast>>,
    pub(super) now: Timestamp,
    /// The machine's time, for the age of watches.
    pub(super) machine_now: Timestamp,
}

impl Snapshot<'_> {
    /// Fails if a resource is not synced, or its watch has been broken for longer than `grace`.
    pub(super) fn ensure_fresh(
        &self,
        resource: Resource,
        metric: &str,
        grace: Duration,
    ) -> Result<(), StatusError> {
        let Some(freshness) = self.view.freshness.get(&resource) else {
            return Ok(());
        };
        let name = resource.name();
        if !freshness.synced {
            return Err(StatusError::Unavailable(format!(
                "{name} could not be read from the API server yet"
            )));
        }
        // If the clock was set back, the state is as old as that step.
        let age = freshness.stale_since.map_or(0, |since| {
            let age = self.machine_now.duration_since(since);
            age.as_secs().saturating_abs()
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
        let written = || self.forecast(prediction, metric);
        let found = match self.feed_forecast(prediction, identifier) {
            None => written(),
            Some((newest, "")) => self
                .forecast(prediction, &newest)
                .or_else(|why| written().map_err(|_| why)),
            Some((newest, reason)) => self
                .forecast(prediction, &newest)
                .or_else(|why| written().map_err(|_| format!("{why}: {reason}"))),
        };
        let value = found.and_then(|Forecast { value, at_seconds }| {
            let value = MilliValue::from_units(value).ok_or("the value is not a number")?;
            let at = Timestamp::from_second(at_seconds).map_err(|error| error.to_string())?;
            Ok((value, at))
        });
        value.map_err(|why| missing(requested_metric, format!("{identifier} of {target}: {why}")))
    }

    fn forecast(
        &self,
        prediction: &Prediction,
        metric: &PredictedMetric,
    ) -> Result<Forecast, String> {
        let grace = LAST_GOOD_VALUE_FOR.as_secs().cast_signed();
        let now = self.now.as_second();
        forecast(metric, prediction.window_seconds, now, grace)
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

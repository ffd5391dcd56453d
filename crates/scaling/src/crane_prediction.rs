//! The value that Crane's adapter serves for a prediction: the largest one within the window that
//! begins now.
//!
//! Never the value at one time: so replicas are there before a rise, and stay until its peak has
//! left the window. Values that are not above zero do not count. Source: gocrane/crane
//! `pkg/metricprovider/external_metric_provider.go`. Unlike there, the value is not cut to whole
//! units.

use thiserror::Error;

/// What a `TimeSeriesPrediction` holds for one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted<'a> {
    /// Its identifier, such as `resource.cpu`.
    pub identifier: &'a str,
    /// Whether the whole window is predicted.
    pub ready: bool,
    /// Its series, each of seconds since 1970 and values.
    pub series: &'a [Vec<(i64, f64)>],
}

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoPrediction {
    /// No metric has this identifier and exactly one series.
    #[error("no prediction of this metric with exactly one series")]
    NotMatched,
    /// There is not enough history, or it could not be read.
    #[error("the prediction is not ready")]
    NotReady,
    /// What was predicted lies in the past.
    #[error("the prediction is outdated")]
    Outdated,
}

/// The largest value predicted for the next `window_seconds`.
pub fn window_maximum(
    predictions: &[Predicted<'_>],
    identifier: &str,
    now_seconds: i64,
    window_seconds: i32,
) -> Result<f64, NoPrediction> {
    let matching = predictions
        .iter()
        .filter(|prediction| prediction.identifier == identifier);
    let single = matching.filter_map(|prediction| match prediction.series {
        [samples] => Some((prediction.ready, samples)),
        _ => None,
    });
    let (ready, samples) = single.into_iter().next().ok_or(NoPrediction::NotMatched)?;
    if !ready {
        return Err(NoPrediction::NotReady);
    }
    let window = now_seconds..=now_seconds.saturating_add(window_seconds.into());
    let within = samples
        .iter()
        .filter(|(at, value)| window.contains(at) && *value > 0.0);
    within
        .map(|(_, value)| *value)
        .reduce(f64::max)
        .ok_or(NoPrediction::Outdated)
}

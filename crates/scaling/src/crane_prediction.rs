//! The value of a prediction as served by Crane's adapter: the maximum within the window that
//! begins now.
//!
//! With the maximum, replicas are ready before a rise and stay until its peak has left the window.
//! Values that are not above zero are ignored. Source: gocrane/crane
//! `pkg/metricprovider/external_metric_provider.go`. Unlike there, the value is not truncated to
//! whole units.

use thiserror::Error;

/// Prediction of one metric in a `TimeSeriesPrediction`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted<'a> {
    /// Identifier of the metric, such as `resource.cpu`.
    pub identifier: &'a str,
    /// Whether the prediction covers the whole window.
    pub ready: bool,
    /// Series of (second since 1970, value).
    pub series: &'a [Vec<(i64, f64)>],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoPrediction {
    #[error("no prediction of this metric with exactly one series")]
    NotMatched,
    #[error("the prediction is not ready")]
    NotReady,
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
    let mut matching = predictions.iter().filter(|it| it.identifier == identifier);
    let single = matching.find_map(|prediction| match prediction.series {
        [samples] => Some((prediction.ready, samples)),
        _ => None,
    });
    let (ready, samples) = single.ok_or(NoPrediction::NotMatched)?;
    if !ready {
        return Err(NoPrediction::NotReady);
    }
    let window = now_seconds..=now_seconds.saturating_add(window_seconds.into());
    let samples = samples.iter();
    let within = samples.filter(|(at, value)| window.contains(at) && *value > 0.0);
    let largest = within.map(|(_, value)| *value).reduce(f64::max);
    largest.ok_or(NoPrediction::Outdated)
}

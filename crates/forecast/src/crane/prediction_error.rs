//! Prediction error in which underestimates count more than overestimates.
//!
//! The mean over all points of `(predicted - actual) / actual` for overestimates, and of
//! `-ln(1 - x) / ln(1.25)` with `x = (actual - predicted) / actual` for underestimates. If any
//! actual value is below 0.001: the mean of the plain differences. Source: gocrane/crane
//! `pkg/prediction/accuracy/prediction_error.go`.

const SMALL: f64 = 1e-3;

/// The error; NaN if the lists differ in length or are empty.
pub fn prediction_error(actual: &[f64], predicted: &[f64]) -> f64 {
    if actual.len() != predicted.len() {
        return f64::NAN;
    }
    let is_small = actual.iter().any(|value| *value < SMALL);
    let error = if is_small { difference } else { share };
    let pairs = actual.iter().zip(predicted);
    let errors = pairs.map(|(actual, predicted)| error(*actual, *predicted));
    errors.sum::<f64>() / actual.len() as f64
}

fn difference(actual: f64, predicted: f64) -> f64 {
    (actual - predicted).abs()
}

fn share(actual: f64, predicted: f64) -> f64 {
    if predicted >= actual {
        return (predicted - actual) / actual;
    }
    -(1.0 - (actual - predicted) / actual).ln() / 1.25_f64.ln()
}

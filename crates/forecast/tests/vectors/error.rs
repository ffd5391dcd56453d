//! The error that ranks estimators.

use forecast::crane::prediction_error;
use serde::Deserialize;

use crate::cases::{double, is_close, load};

#[derive(Deserialize)]
struct Case {
    actual: Vec<f64>,
    predicted: Vec<f64>,
    #[serde(deserialize_with = "double")]
    expect: f64,
}

#[test]
fn vectors_crane_dsp_error() {
    for (number, case) in load::<Case>("dsp_error").into_iter().enumerate() {
        let found = prediction_error(&case.actual, &case.predicted);
        assert!(is_close(found, case.expect, 1e-12), "case {number}: {found} for {}", case.expect);
    }
}

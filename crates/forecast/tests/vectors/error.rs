//! Error that ranks estimators.

use forecast::crane::prediction_error;
use serde::Deserialize;
use testing::vectors::{double, each_case};

use crate::approx::is_close;

#[derive(Deserialize)]
struct Case {
    actual: Vec<f64>,
    predicted: Vec<f64>,
    #[serde(deserialize_with = "double")]
    expect: f64,
}

#[test]
fn vectors_crane_dsp_error() {
    each_case("crane/dsp_error", |number, case: Case| {
        let found = prediction_error(&case.actual, &case.predicted);
        assert!(
            is_close(found, case.expect, 1e-12),
            "case {number}: {found} for {}",
            case.expect
        );
    });
}

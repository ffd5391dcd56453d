//! Circular autocorrelation of short lists, the error that ranks estimators, and histories with
//! gaps, doubles and odd distances.

use forecast::crane::{autocorrelation, prediction_error, preprocess};
use serde::Deserialize;
use testing::vectors::{Double, double, each_case};

use crate::approx::{check_all_close, check_close};

#[derive(Deserialize)]
struct Autocorrelation {
    samples: Vec<f64>,
    expect: Vec<Double>,
}

#[test]
fn vectors_crane_dsp_autocorrelation() {
    each_case(
        "crane/dsp_autocorrelation",
        |number, case: Autocorrelation| {
            let found = autocorrelation(&case.samples);
            let expected: Vec<f64> = case.expect.iter().map(|double| double.0).collect();
            check_all_close(&found, &expected, 1e-9, &format!("case {number}"));
        },
    );
}

#[derive(Deserialize)]
struct PredictionError {
    actual: Vec<f64>,
    predicted: Vec<f64>,
    #[serde(deserialize_with = "double")]
    expect: f64,
}

#[test]
fn vectors_crane_dsp_error() {
    each_case("crane/dsp_error", |number, case: PredictionError| {
        let found = prediction_error(&case.actual, &case.predicted);
        check_close(found, case.expect, 1e-12, &format!("case {number}"));
    });
}

#[derive(Deserialize)]
struct Preprocessing {
    step_seconds: u32,
    samples: Vec<(i64, f64)>,
    expect: Preprocessed,
}

#[derive(Deserialize)]
struct Preprocessed {
    rejected: bool,
    first_timestamp: Option<i64>,
    values: Option<Vec<f64>>,
}

#[test]
fn vectors_crane_dsp_preprocess() {
    each_case("crane/dsp_preprocess", |number, case: Preprocessing| {
        let (expected, which) = (case.expect, format!("case {number}"));
        let found = preprocess(&case.samples, case.step_seconds);
        assert_eq!(found.is_err(), expected.rejected, "{which}: {found:?}");
        let Ok(found) = found else { return };
        assert_eq!(found.first_second, expected.first_timestamp, "{which}");
        let values = expected.values.unwrap_or_default();
        check_all_close(&found.values, &values, 1e-12, &which);
    });
}

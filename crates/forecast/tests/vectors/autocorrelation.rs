//! Circular autocorrelation of short lists.

use forecast::crane::autocorrelation;
use serde::Deserialize;
use testing::vectors::{Double, each_case};

use crate::approx::is_close;

#[derive(Deserialize)]
struct Case {
    samples: Vec<f64>,
    expect: Vec<Double>,
}

#[test]
fn vectors_crane_dsp_autocorrelation() {
    each_case("crane/dsp_autocorrelation", |number, case: Case| {
        let found = autocorrelation(&case.samples);
        assert_eq!(found.len(), case.expect.len(), "case {number}");
        for (lag, (found, expected)) in found.iter().zip(&case.expect).enumerate() {
            assert!(
                is_close(*found, expected.0, 1e-9),
                "case {number}, lag {lag}: {found} for {}",
                expected.0
            );
        }
    });
}

//! Histories with gaps, doubles and odd distances.

use forecast::crane::preprocess;
use serde::Deserialize;
use testing::vectors::each_case;

use crate::approx::is_close;

#[derive(Deserialize)]
struct Case {
    step_seconds: u32,
    samples: Vec<(i64, f64)>,
    expect: Expected,
}

#[derive(Deserialize)]
struct Expected {
    rejected: bool,
    first_timestamp: Option<i64>,
    values: Option<Vec<f64>>,
}

#[test]
fn vectors_crane_dsp_preprocess() {
    each_case("crane/dsp_preprocess", |number, case: Case| {
        let found = preprocess(&case.samples, case.step_seconds);
        assert_eq!(
            found.is_err(),
            case.expect.rejected,
            "case {number}: {found:?}"
        );
        let Ok(found) = found else { return };
        let expected = case.expect.values.unwrap_or_default();
        assert_eq!(
            found.first_second, case.expect.first_timestamp,
            "case {number}"
        );
        assert_eq!(found.values.len(), expected.len(), "case {number}");
        for (index, (found, expected)) in found.values.iter().zip(&expected).enumerate() {
            assert!(
                is_close(*found, *expected, 1e-12),
                "case {number}, value {index}: {found} for {expected}"
            );
        }
    });
}

//! From samples to a forecast, or to the reason for having none.

use std::collections::BTreeMap;

use forecast::crane::{Dsp, DspError, Estimator, preprocess};
use serde::Deserialize;
use testing::vectors::{Double, each_case};

use crate::close::is_close;
use crate::estimators::Written;
use crate::source::Source;
use crate::summary::Summary;

#[derive(Deserialize)]
struct Case {
    source: Source,
    step_seconds: u32,
    estimators: Option<Vec<Written>>,
    expect: Expected,
}

#[derive(Deserialize)]
struct Expected {
    rejected: bool,
    first_timestamp: Option<i64>,
    preprocessed: Option<Summary>,
    #[serde(default)]
    period_seconds_answers: BTreeMap<String, u32>,
    #[serde(default)]
    period_stable: bool,
    periods: Option<usize>,
    estimator_errors: Option<Vec<Double>>,
    best_estimator: Option<usize>,
    forecast: Option<Summary>,
    forecast_first_timestamp: Option<i64>,
}

#[test]
fn vectors_crane_dsp_forecast() {
    let mut compared = 0;
    let cases = each_case("crane/dsp_forecast", |number, case: Case| {
        let samples = case.source.samples();
        let regular = preprocess(&samples, case.step_seconds);
        assert_eq!(
            regular.is_err(),
            case.expect.rejected,
            "case {number}: {regular:?}"
        );
        let Ok(regular) = regular else { return };
        assert_eq!(
            regular.first_second, case.expect.first_timestamp,
            "case {number}"
        );
        let preprocessed = case
            .expect
            .preprocessed
            .as_ref()
            .expect("what is not rejected was preprocessed");
        preprocessed.check(
            &regular.values,
            1e-6,
            &format!("case {number}, preprocessed"),
        );

        let estimators = case
            .estimators
            .as_deref()
            .map_or_else(Estimator::defaults, |written| {
                written.iter().map(Written::estimator).collect()
            });
        let dsp = Dsp {
            step_seconds: case.step_seconds,
            estimators,
        };
        let period = dsp
            .period(&regular.values)
            .map_or_else(|| "none".to_owned(), |seconds| seconds.to_string());
        if case.expect.period_stable {
            assert!(
                case.expect.period_seconds_answers.contains_key(&period),
                "case {number}: {period}"
            );
            check(
                &case.expect,
                dsp.forecast(&samples),
                &format!("case {number}"),
            );
            compared += 1;
        }
    });
    assert!(
        cases == 0 || compared > 30,
        "{compared} cases have a period that does not depend on chance"
    );
}

fn check(expected: &Expected, found: Result<forecast::crane::DspForecast, DspError>, which: &str) {
    let Some(summary) = &expected.forecast else {
        assert!(found.is_err(), "{which}: {found:?}");
        return;
    };
    let found = found.unwrap_or_else(|error| panic!("{which}: {error}"));
    assert_eq!(Some(found.periods), expected.periods, "{which}");
    assert_eq!(
        Some(found.first_second),
        expected.forecast_first_timestamp,
        "{which}"
    );
    let errors = expected.estimator_errors.as_deref().unwrap_or_default();
    assert_eq!(found.errors.len(), errors.len(), "{which}");
    for (index, (found, expected)) in found.errors.iter().zip(errors).enumerate() {
        assert!(
            is_close(*found, expected.0, 1e-6),
            "{which}, error {index}: {found} for {}",
            expected.0
        );
    }
    assert_eq!(Some(found.best), expected.best_estimator, "{which}");
    summary.check(&found.values().collect::<Vec<_>>(), 1e-6, which);
}

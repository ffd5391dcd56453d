//! From samples to a forecast, or to the reason for having none.

use std::collections::BTreeMap;

use forecast::crane::{Dsp, DspError, Estimator, preprocess};
use serde::Deserialize;
use testing::vectors::{Double, each_case};

use crate::approx::check_all_close;
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
        let (expect, which) = (&case.expect, format!("case {number}"));
        assert_eq!(regular.is_err(), expect.rejected, "{which}: {regular:?}");
        let Ok(regular) = regular else { return };
        assert_eq!(regular.first_second, expect.first_timestamp, "{which}");
        let preprocessed = expect.preprocessed.as_ref();
        let preprocessed = preprocessed.expect("what is not rejected was preprocessed");
        preprocessed.check(&regular.values, 1e-6, &format!("{which}, preprocessed"));

        let written = case.estimators.as_deref();
        let estimators = written.map_or_else(Estimator::defaults, |written| {
            written.iter().map(Written::estimator).collect()
        });
        let dsp = Dsp {
            step_seconds: case.step_seconds,
            estimators,
        };
        let period = dsp.period(&regular.values);
        let period = period.map_or_else(|| "none".to_owned(), |seconds| seconds.to_string());
        if expect.period_stable {
            let is_known = expect.period_seconds_answers.contains_key(&period);
            assert!(is_known, "{which}: {period}");
            check(expect, dsp.forecast_while(&samples, || true), &which);
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
    let first = Some(found.first_second);
    assert_eq!(first, expected.forecast_first_timestamp, "{which}");
    let errors = expected.estimator_errors.as_deref().unwrap_or_default();
    let errors: Vec<f64> = errors.iter().map(|double| double.0).collect();
    check_all_close(&found.errors, &errors, 1e-6, &format!("{which}, error"));
    assert_eq!(Some(found.best), expected.best_estimator, "{which}");
    summary.check(&found.values().collect::<Vec<_>>(), 1e-6, which);
}

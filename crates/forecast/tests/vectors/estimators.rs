//! Forecast of one period by each estimator.

use forecast::crane::{Estimator, Filter, Periods};
use serde::Deserialize;
use testing::vectors::each_case;

use crate::source::Source;
use crate::summary::Summary;

#[derive(Deserialize)]
struct Case {
    source: Source,
    period_seconds: usize,
    periods: usize,
    outputs: Vec<Output>,
}

#[derive(Deserialize)]
struct Output {
    estimator: Written,
    expect: Summary,
}

/// An estimator as recorded; absent fields have their default.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Written {
    MaxValue {
        margin_fraction: f64,
    },
    Fft {
        margin_fraction: f64,
        high_frequency_threshold: Option<f64>,
        low_amplitude_threshold: Option<f64>,
        min_num_of_spectrum_items: Option<usize>,
        max_num_of_spectrum_items: Option<usize>,
    },
}

impl Written {
    pub(crate) fn estimator(&self) -> Estimator {
        let default = Filter::default();
        match *self {
            Self::MaxValue { margin_fraction } => Estimator::MaxValue {
                margin: margin_fraction,
            },
            Self::Fft {
                margin_fraction,
                high_frequency_threshold,
                low_amplitude_threshold,
                min_num_of_spectrum_items,
                max_num_of_spectrum_items,
            } => Estimator::Fft(Filter {
                margin: margin_fraction,
                high_frequency_hz: high_frequency_threshold.unwrap_or(default.high_frequency_hz),
                low_amplitude: low_amplitude_threshold.unwrap_or(default.low_amplitude),
                min_bins: min_num_of_spectrum_items.unwrap_or(default.min_bins),
                max_bins: max_num_of_spectrum_items.unwrap_or(default.max_bins),
            }),
        }
    }
}

#[test]
fn vectors_crane_dsp_estimators() {
    each_case("crane/dsp_estimators", |number, case: Case| {
        let samples = case.source.samples();
        let step_seconds = (samples[1].0 - samples[0].0) as u32;
        let per_period = case.period_seconds / step_seconds as usize;
        let values: Vec<f64> = samples.iter().map(|(_, value)| *value).collect();
        let whole = &values[values.len() - case.periods * per_period..];
        let periods = Periods::new(whole, per_period, step_seconds);
        for output in &case.outputs {
            let estimator = output.estimator.estimator();
            let is_exact = matches!(estimator, Estimator::MaxValue { .. });
            let tolerance = if is_exact { 1e-15 } else { 1e-6 };
            let (found, which) = (
                periods.next(&estimator),
                format!("case {number}, {estimator:?}"),
            );
            output.expect.check(&found, tolerance, &which);
        }
    });
}

//! Crane's percentile predictor with an object's settings: one value of all series, or one of each.

use std::collections::BTreeMap;

use serde::Deserialize;
use sizing::{PercentilePredictor, PercentileSettings, WeightedHistogram};
use testing::vectors::each_case;

#[derive(Deserialize)]
struct Case {
    percentile: PercentileSettings,
    series: Option<Vec<Vec<f64>>>,
    expect: Expected,
}

#[derive(Deserialize)]
struct Expected {
    error: bool,
    #[serde(default)]
    values: BTreeMap<String, f64>,
}

fn predict(predictor: &PercentilePredictor, series: &[&[f64]]) -> f64 {
    let mut histogram = WeightedHistogram::default();
    series
        .iter()
        .copied()
        .flatten()
        .for_each(|value| predictor.add(&mut histogram, *value));
    predictor.predict(&histogram)
}

#[test]
fn vectors_crane_percentile() {
    each_case("crane/percentile", |number, case: Case| {
        let predictor = PercentilePredictor::parse(&case.percentile);
        assert_eq!(
            predictor.is_err(),
            case.expect.error,
            "case {number}: {:?}: {predictor:?}",
            case.percentile
        );
        let Ok(predictor) = predictor else { return };
        let series: Vec<&[f64]> = case.series.iter().flatten().map(Vec::as_slice).collect();
        let values: BTreeMap<String, f64> = if predictor.aggregated {
            [(String::new(), predict(&predictor, &series))].into()
        } else {
            // A series without samples has no value.
            let named = series
                .iter()
                .enumerate()
                .filter(|(_, samples)| !samples.is_empty());
            named
                .map(|(index, samples)| (format!("p{index}"), predict(&predictor, &[samples])))
                .collect()
        };
        assert_eq!(
            values, case.expect.values,
            "case {number}: {:?}",
            case.percentile
        );
    });
}

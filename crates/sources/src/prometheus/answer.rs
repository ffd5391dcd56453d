//! What an answer of Prometheus' HTTP API says. Values that are not finite or below zero are no usage and are passed over.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::Series;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::error::PrometheusError;

/// A series with its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled {
    /// The labels by name.
    pub labels: BTreeMap<String, String>,
    /// The values over time.
    pub series: Series,
}

#[derive(Deserialize)]
struct Answer<D> {
    data: Option<D>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Matrix(Vec<Found>),
    Vector(IgnoredAny),
    Scalar(IgnoredAny),
    String(IgnoredAny),
}

#[derive(Deserialize)]
struct Found {
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(f64, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Refusal {
    #[serde(default)]
    error: String,
}

/// The series of a range query.
pub(super) fn series(body: &[u8]) -> Result<Vec<Labelled>, PrometheusError> {
    match data(body)? {
        Data::Matrix(found) => Ok(found.into_iter().map(labelled).collect()),
        Data::Vector(_) | Data::Scalar(_) | Data::String(_) => {
            Err(PrometheusError::Malformed("the result of a range is no matrix".into()))
        }
    }
}

/// The values of a label.
pub(super) fn label_values(body: &[u8]) -> Result<Vec<String>, PrometheusError> {
    data(body)
}

/// What an answer that is an error says, in short.
pub(super) fn refusal(body: &[u8]) -> String {
    let said = match serde_json::from_slice::<Refusal>(body) {
        Ok(Refusal { error }) if !error.is_empty() => error,
        _ => String::from_utf8_lossy(body).trim().to_owned(),
    };
    said.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(200).collect()
}

pub(super) fn data<'a, D: Deserialize<'a>>(body: &'a [u8]) -> Result<D, PrometheusError> {
    let answer: Answer<D> =
        serde_json::from_slice(body).map_err(|error| PrometheusError::Malformed(error.to_string().into()))?;
    answer.data.ok_or_else(|| PrometheusError::Malformed("there is no data in it".into()))
}

fn labelled(Found { metric, values }: Found) -> Labelled {
    let points = values.into_iter().filter_map(|(second, value)| Some((time(second)?, usage(&value)?)));
    Labelled { labels: metric, series: Series::new(points.collect()) }
}

pub(super) fn time(second: f64) -> Option<Timestamp> {
    let millisecond = (second * 1000.0).round();
    millisecond.is_finite().then_some(millisecond as i64).and_then(|at| Timestamp::from_millisecond(at).ok())
}

fn usage(value: &str) -> Option<f64> {
    value.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Prometheus 3 answers, with warnings and a value that is none.
    const MATRIX: &[u8] = include_bytes!("../../fixtures/matrix.json");
    const LABEL_VALUES: &[u8] = include_bytes!("../../fixtures/label_values.json");
    const TOO_MANY_SAMPLES: &[u8] = include_bytes!("../../fixtures/too_many_samples.json");

    #[test]
    fn a_matrix_has_a_series_per_set_of_labels() {
        let found = series(MATRIX).expect("a matrix");
        let values: Vec<Vec<f64>> = found.iter().map(|found| found.series.values().collect()).collect();
        assert_eq!(values, [vec![0.25, 0.5], vec![]]);
        assert_eq!(found[0].labels["pod"], "web-1");
        let times: Vec<String> = found[0].series.timestamps().map(|at| at.to_string()).collect();
        assert_eq!(times, ["2026-01-01T00:00:00Z", "2026-01-01T02:00:00.781Z"]);
    }

    #[test]
    fn values_of_a_label_are_a_list() {
        assert_eq!(label_values(LABEL_VALUES).expect("a list"), ["container_cpu_usage_seconds_total"]);
    }

    #[test]
    fn refusals_say_why_in_short() {
        let expected = "query processing would load too many samples into memory in query execution";
        assert_eq!(refusal(TOO_MANY_SAMPLES), expected);
        assert_eq!(refusal(b"<html>\nno"), "<html> no");
        assert_eq!(refusal(&[b'x'; 5000]).len(), 200);
        assert_eq!(refusal(br#"{"error": ""}"#), r#"{"error": ""}"#);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for body in ["", "{}", "[]", r#"{"data": {}}"#, r#"{"data": {"resultType": "vector", "result": []}}"#] {
            assert!(series(body.as_bytes()).is_err(), "{body}");
        }
        let strange = r#"{"data":{"resultType":"matrix","result":[{"metric":{},"values":[[1e300,"1"],[1,"x"]]}]}}"#;
        assert!(series(strange.as_bytes()).expect("a matrix")[0].series.is_empty());
    }
}

//! Responses of range queries and label lists. Skips values that are not finite or below zero.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use model::Series;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::PrometheusError;

/// Maximum length of an error message in characters.
const MAX_MESSAGE: usize = 200;
/// Messages of Prometheus' engine about series that an expression cannot combine. Other errors of
/// this type may come from storage behind the engine and contain its addresses.
const EXECUTION_FAULTS: &[&str] = &[
    "found duplicate series for the match group",
    "multiple matches for labels",
    "vector cannot contain metrics with the same labelset",
];

#[derive(Debug, Clone, PartialEq)]
pub struct Labelled {
    pub labels: BTreeMap<String, String>,
    pub series: Series,
}

/// Beginnings of Prometheus' own remarks, in answers that are complete, or as long as asked for.
const REMARKS: [&str; 2] = ["PromQL ", "results truncated due to limit"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<D> {
    data: Option<D>,
    /// Of `VictoriaMetrics`.
    #[serde(default)]
    is_partial: bool,
    /// Of Thanos, the failures of its stores.
    warnings: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data<const MAX_SERIES: usize> {
    Matrix(Matrix<MAX_SERIES>),
    Vector(IgnoredAny),
    Scalar(IgnoredAny),
    String(IgnoredAny),
}

/// The first series of a matrix, and whether it has more. The rest is skipped while parsing: a
/// short series takes about twenty times as much memory as its text.
struct Matrix<const MAX_SERIES: usize> {
    series: Vec<Labelled>,
    has_more: bool,
}

impl<'de, const MAX_SERIES: usize> Deserialize<'de> for Matrix<MAX_SERIES> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect<const MAX_SERIES: usize>;

        impl<'de, const MAX_SERIES: usize> Visitor<'de> for Collect<MAX_SERIES> {
            type Value = Matrix<MAX_SERIES>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of series")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut found: A) -> Result<Self::Value, A::Error> {
                let mut series = Vec::new();
                while series.len() < MAX_SERIES {
                    let Some(one) = found.next_element()? else {
                        return Ok(Matrix {
                            series,
                            has_more: false,
                        });
                    };
                    series.push(labelled(one));
                }
                let mut has_more = false;
                while found.next_element::<IgnoredAny>()?.is_some() {
                    has_more = true;
                }
                Ok(Matrix { series, has_more })
            }
        }

        deserializer.deserialize_seq(Collect)
    }
}

#[derive(Deserialize)]
struct Found {
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(f64, String)>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Refusal {
    error: String,
    error_type: String,
    /// The message of an API server that does not forward the request.
    message: String,
}

/// The series of a range query, at most `MAX`.
pub(super) fn series<const MAX: usize>(body: &[u8]) -> Result<Vec<Labelled>, PrometheusError> {
    match data::<Data<MAX>>(body)? {
        Data::Matrix(Matrix { has_more: true, .. }) => Err(PrometheusError::TooManySeries(MAX)),
        Data::Matrix(Matrix { series, .. }) => Ok(series),
        Data::Vector(_) | Data::Scalar(_) | Data::String(_) => Err(PrometheusError::Malformed(
            "the result of a range query is not a matrix".into(),
        )),
    }
}

pub(super) fn label_values(body: &[u8]) -> Result<Vec<String>, PrometheusError> {
    data(body)
}

/// The error in a response, with a shortened message.
pub(super) fn refusal(code: u16, body: &[u8]) -> PrometheusError {
    let Refusal {
        error,
        error_type,
        message,
    } = serde_json::from_slice(body).unwrap_or_default();
    let said = [error, message].into_iter().find(|text| !text.is_empty());
    let said = said.unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned());
    let message = shortened(&said);
    let is_parse_error = message.contains("parse error");
    let refused = PrometheusError::Refused {
        code,
        message: message.clone().into(),
    };
    let is_of_expression = match error_type.as_str() {
        "bad_data" => is_parse_error || refused.excess().is_none(),
        "execution" => EXECUTION_FAULTS
            .iter()
            .any(|fault| message.starts_with(fault)),
        _ => false,
    };
    let is_bad_query = matches!(code, 400 | 422) && is_of_expression;
    if is_bad_query && !names_connection(&message) {
        PrometheusError::BadQuery { code, message }
    } else {
        refused
    }
}

fn shortened(message: &str) -> String {
    message
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .take(MAX_MESSAGE)
        .collect()
}

/// Whether a message may be about the connection to the store or behind it.
fn names_connection(message: &str) -> bool {
    ["://", "dial ", "lookup ", "rpc error"]
        .iter()
        .any(|word| message.contains(word))
}

pub(super) fn data<'a, D: Deserialize<'a>>(body: &'a [u8]) -> Result<D, PrometheusError> {
    let answer: Answer<D> = serde_json::from_slice(body)
        .map_err(|error| PrometheusError::Malformed(error.to_string().into()))?;
    let warnings = answer.warnings.unwrap_or_default();
    let is_remark = |text: &str| REMARKS.iter().any(|remark| text.starts_with(remark));
    let failure = warnings.iter().find(|text| !is_remark(text));
    if answer.is_partial || failure.is_some() {
        let text = failure.map_or("isPartial is true", |text| text.as_str());
        return Err(PrometheusError::Partial(shortened(text).into()));
    }
    answer
        .data
        .ok_or_else(|| PrometheusError::Malformed("the response has no data".into()))
}

fn labelled(Found { metric, values }: Found) -> Labelled {
    let points = values
        .into_iter()
        .filter_map(|(second, value)| Some((time(second)?, usage(&value)?)));
    Labelled {
        labels: metric,
        series: Series::new(points.collect()),
    }
}

pub(super) fn time(second: f64) -> Option<Timestamp> {
    let millisecond = (second * 1000.0).round();
    millisecond
        .is_finite()
        .then_some(millisecond as i64)
        .and_then(|at| Timestamp::from_millisecond(at).ok())
}

fn usage(value: &str) -> Option<f64> {
    value
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite() && *value >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Response of Prometheus 3 with warnings and an invalid value.
    const MATRIX: &[u8] = include_bytes!("../../fixtures/matrix.json");
    const LABEL_VALUES: &[u8] = include_bytes!("../../fixtures/label_values.json");

    #[test]
    fn partial_answers_are_errors() {
        let answer = |extra: &str| {
            format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":[]}}{extra}}}"#)
        };
        for extra in [
            "",
            r#","warnings":null"#,
            r#","isPartial":false,"warnings":[]"#,
            r#","warnings":["PromQL warning: encountered a mix of histograms and floats"]"#,
            r#","infos":["PromQL info: metric might not be a counter"]"#,
            r#","warnings":["results truncated due to limit"]"#,
        ] {
            assert!(series::<1>(answer(extra).as_bytes()).is_ok(), "{extra}");
        }
        for extra in [
            r#","isPartial":true"#,
            r#","warnings":["receive series from Addr: 10.0.0.1:10901: rpc error: code = Unavailable"]"#,
            r#","warnings":["PromQL info: metric might not be a counter","No StoreAPIs matched for this query"]"#,
        ] {
            let found = series::<1>(answer(extra).as_bytes());
            assert!(matches!(found, Err(PrometheusError::Partial(_))), "{extra}");
        }
        let labels = br#"{"status":"success","data":["a"],"isPartial":true}"#;
        assert!(matches!(
            label_values(labels),
            Err(PrometheusError::Partial(_))
        ));
    }
    const TOO_MANY_SAMPLES: &[u8] = include_bytes!("../../fixtures/too_many_samples.json");

    #[test]
    fn a_matrix_has_a_series_per_set_of_labels() {
        let found = series::<2>(MATRIX).expect("a matrix");
        let values = found
            .iter()
            .map(|found| found.series.values().collect::<Vec<_>>());
        assert_eq!(values.collect::<Vec<_>>(), [vec![0.25, 0.5], vec![]]);
        assert_eq!(found[0].labels["pod"], "web-1");
        let times = found[0].series.timestamps().map(|at| at.to_string());
        let expected = ["2026-01-01T00:00:00Z", "2026-01-01T02:00:00.781Z"];
        assert_eq!(times.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn no_more_series_are_kept_than_there_may_be() {
        assert!(series::<2>(MATRIX).is_ok());
        let error = series::<1>(MATRIX).expect_err("there are two");
        let expected = "Prometheus' answer has more than 1 series; sum() makes them one";
        assert_eq!(error.to_string(), expected);
        let one = r#"{"metric":{"a":"1"},"values":[[0,"1"]]}"#;
        let many = format!(
            r#"{{"data":{{"resultType":"matrix","result":[{}{one}]}}}}"#,
            format!("{one},").repeat(46_999)
        );
        assert!(many.len() < 2 << 20);
        let found = series::<1000>(many.as_bytes());
        assert!(matches!(found, Err(PrometheusError::TooManySeries(1000))));
        let open = series::<1>(many.replace("}]}}", "}]").as_bytes());
        assert!(open.is_err_and(|error| error.excess().is_none()));
    }

    #[test]
    fn values_of_a_label_are_a_list() {
        let found = label_values(LABEL_VALUES).expect("a list");
        assert_eq!(found, ["container_cpu_usage_seconds_total"]);
    }

    fn check_refusal(code: u16, body: &[u8], is_bad_query: bool, expected: &str) {
        let (found, message) = match refusal(code, body) {
            PrometheusError::BadQuery { code, message } => ((code, true), message),
            PrometheusError::Refused { code, message } => ((code, false), message.to_string()),
            other => panic!("{other:?}"),
        };
        assert_eq!((found, message.as_str()), ((code, is_bad_query), expected));
    }

    #[test]
    fn refusals_say_why_in_short() {
        let expected =
            "query processing would load too many samples into memory in query execution";
        check_refusal(422, TOO_MANY_SAMPLES, false, expected);
        check_refusal(502, b"<html>\nno", false, "<html> no");
        check_refusal(400, &[b'x'; 5000], false, &"x".repeat(200));
        let status = br#"{"kind": "Status", "message": "no endpoints available"}"#;
        check_refusal(503, status, false, "no endpoints available");
        check_refusal(400, br#"{"error": ""}"#, false, r#"{"error": ""}"#);
    }

    #[test]
    fn only_a_fault_of_the_expression_is_a_bad_query() {
        let parse =
            r#"invalid parameter "query": 1:5: parse error: unexpected identifier "limits""#;
        let long = format!("{parse}{}", "x".repeat(5000));
        let short: String = long.chars().take(200).collect();
        let many = r#"found duplicate series for the match group {pod="a"} on the right hand-side of the operation"#;
        let store = "expanding series: rpc error: code = Unavailable: dial tcp 10.1.2.3:10901: connect: connection refused";
        let address = "Get \"http://prometheus-0:9090\": parse error";
        let points = "exceeded maximum resolution of 11,000 points per timeseries";
        for (code, kind, message, is_bad_query) in [
            (400, "bad_data", parse, true),
            (422, "bad_data", parse, true),
            (422, "execution", many, true),
            (400, "bad_data", points, false),
            (422, "execution", store, false),
            (400, "bad_data", address, false),
            (401, "bad_data", parse, false),
            (400, "", parse, false),
            (503, "unavailable", "service unavailable", false),
        ] {
            let body = serde_json::json!({"status": "error", "errorType": kind, "error": message});
            check_refusal(code, body.to_string().as_bytes(), is_bad_query, message);
        }
        let body = serde_json::json!({"errorType": "bad_data", "error": long}).to_string();
        check_refusal(400, body.as_bytes(), true, &short);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for body in [
            "",
            "{}",
            "[]",
            r#"{"data": {}}"#,
            r#"{"data": {"resultType": "vector", "result": []}}"#,
        ] {
            let error = series::<9>(body.as_bytes()).unwrap_err();
            let expected = "Prometheus' answer cannot be read";
            assert_eq!(error.to_string(), expected, "{body}");
        }
        let strange = r#"{"data":{"resultType":"matrix","result":[{"metric":{},"values":[[1e300,"1"],[1,"x"]]}]}}"#;
        let found = series::<9>(strange.as_bytes()).expect("a matrix");
        assert!(found[0].series.is_empty());
    }
}

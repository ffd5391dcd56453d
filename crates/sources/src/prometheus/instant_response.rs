//! Responses of instant queries and series lists. The caller decides about NaN.
//!
//! Source: <https://prometheus.io/docs/prometheus/latest/querying/api/>, "Instant queries" and
//! "Finding series by label matchers".

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::PrometheusError;
use super::range_response::{data, time};

#[derive(Debug, Clone, PartialEq)]
pub struct InstantSample {
    pub labels: BTreeMap<String, String>,
    /// Timestamp of the store.
    pub at: Timestamp,
    /// Value, which may be infinite or NaN.
    pub value: f64,
}

/// Name of series and the label names that some of them have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesShape {
    pub name: String,
    /// Label names, without the metric's name.
    pub labels: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Found>),
    Scalar((f64, String)),
    Matrix(IgnoredAny),
    String(IgnoredAny),
}

#[derive(Deserialize)]
struct Found {
    metric: BTreeMap<String, String>,
    /// Absent for native histograms.
    value: Option<(f64, String)>,
}

/// The values of an instant query.
pub(super) fn samples(body: &[u8]) -> Result<Vec<InstantSample>, PrometheusError> {
    match data(body)? {
        Data::Vector(found) => found
            .into_iter()
            .filter_map(|Found { metric, value }| value.map(|value| sample(metric, &value)))
            .collect::<Result<_, _>>(),
        Data::Scalar(value) => Ok(vec![sample(BTreeMap::new(), &value)?]),
        Data::Matrix(_) | Data::String(_) => Err(PrometheusError::Malformed(
            "the result is neither a vector nor a scalar".into(),
        )),
    }
}

fn sample(
    labels: BTreeMap<String, String>,
    (second, value): &(f64, String),
) -> Result<InstantSample, PrometheusError> {
    let malformed =
        || PrometheusError::Malformed(format!("{value:?} at {second} is not a sample").into());
    let at = time(*second).ok_or_else(malformed)?;
    let value = value.parse().map_err(|_| malformed())?;
    Ok(InstantSample { labels, at, value })
}

/// The shapes of the series in a response. Collected while parsing: they are few.
pub(super) fn shapes(body: &[u8]) -> Result<Vec<SeriesShape>, PrometheusError> {
    let Shapes(shapes) = data(body)?;
    Ok(shapes.into_iter().collect())
}

struct Shapes(BTreeSet<SeriesShape>);

impl<'de> Deserialize<'de> for Shapes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Gather;

        impl<'de> Visitor<'de> for Gather {
            type Value = Shapes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of series")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut series: A) -> Result<Self::Value, A::Error> {
                let mut shapes = BTreeSet::new();
                while let Some(mut labels) = series.next_element::<BTreeMap<String, String>>()? {
                    let Some(name) = labels.remove("__name__") else {
                        continue;
                    };
                    shapes.insert(SeriesShape {
                        name,
                        labels: labels.into_keys().collect(),
                    });
                }
                Ok(Shapes(shapes))
            }
        }

        deserializer.deserialize_seq(Gather)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: &str, expected: Option<&[(&str, f64)]>) {
        let body = format!(r#"{{"status":"success","data":{result}}}"#);
        let found = samples(body.as_bytes()).ok();
        let found = found.map(|found| {
            let pod = |sample: &InstantSample| sample.labels.get("pod").cloned();
            let value = |sample: &InstantSample| (pod(sample).unwrap_or_default(), sample.value);
            found.iter().map(value).collect::<Vec<_>>()
        });
        let owned = |(pod, value): &(&str, f64)| ((*pod).to_owned(), *value);
        let expected = expected.map(|values| values.iter().map(owned).collect());
        assert_eq!(found, expected, "{result}");
    }

    #[test]
    fn vectors_and_scalars_are_values() {
        check(
            r#"{"resultType":"vector","result":[{"metric":{"pod":"a"},"value":[1.5,"0.016"]},{"metric":{"pod":"b"},"value":[1.5,"+Inf"]}]}"#,
            Some(&[("a", 0.016), ("b", f64::INFINITY)]),
        );
        let scalar = r#"{"resultType":"scalar","result":[1.5,"7"]}"#;
        check(scalar, Some(&[("", 7.0)]));
        let histogram = r#"{"resultType":"vector","result":[{"metric":{},"histogram":[1.5,{}]}]}"#;
        check(histogram, Some(&[]));
    }

    #[test]
    fn anything_else_is_refused() {
        check(r#"{"resultType":"matrix","result":[]}"#, None);
        check(r#"{"resultType":"string","result":[1,"x"]}"#, None);
        check(r#"{"resultType":"scalar","result":[1e300,"7"]}"#, None);
        check(r#"{"resultType":"scalar","result":[1,"seven"]}"#, None);
        check("null", None);
    }

    #[test]
    fn no_number_stays_none() {
        let body = br#"{"data":{"resultType":"scalar","result":[1700000000.781,"NaN"]}}"#;
        let found = samples(body).expect("a scalar");
        assert!(found[0].value.is_nan());
        assert_eq!(found[0].at.to_string(), "2023-11-14T22:13:20.781Z");
    }

    #[test]
    fn series_are_gathered_by_name_and_labels() {
        let body = br#"{"status":"success","data":[{"__name__":"b","pod":"1"},{"__name__":"a","pod":"1","ns":"x"},{"__name__":"b","pod":"2"},{"no":"name"}]}"#;
        let shape = |name: &str, labels: &[&str]| SeriesShape {
            name: name.to_owned(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        };
        let expected = [shape("a", &["ns", "pod"]), shape("b", &["pod"])];
        assert_eq!(shapes(body).expect("series"), expected);
        let error = shapes(br#"{"data":{}}"#).unwrap_err();
        assert_eq!(error.to_string(), "Prometheus' answer cannot be read");
    }
}

//! Values from samples of the store. A sample that is not a number has no value; it is never zero.

use std::collections::HashMap;

use sources::prometheus::InstantSample;
use sources::rules::ObjectLabels;

use crate::request::{CustomMetricRequest, ObjectSelector, StatusError};
use crate::value::{DescribedObject, ExternalValue, MetricValue, MilliValue};

/// The largest number of values of an external metric. The HPA controller adds them up.
const MAX_EXTERNAL: usize = 1000;

/// Returns the values of these objects, as far as they exist. Of several series of an object the
/// largest counts: the query should have aggregated them.
pub(super) fn of_objects(
    request: &CustomMetricRequest,
    object_labels: &ObjectLabels,
    names: &[String],
    samples: &[InstantSample],
) -> Result<Vec<MetricValue>, StatusError> {
    let mut values: HashMap<&str, (MilliValue, &InstantSample)> = HashMap::new();
    for sample in samples {
        let (Some(name), Some(value)) = (
            sample.labels.get(&object_labels.label),
            MilliValue::from_units(sample.value),
        ) else {
            continue;
        };
        let other = values.get(name.as_str());
        if other.is_none_or(|(other, _)| *other < value) {
            values.insert(name, (value, sample));
        }
    }
    let resource = &object_labels.resource;
    let found = names.iter().filter_map(|name| {
        let (value, sample) = values.get(name.as_str())?;
        let object = DescribedObject {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            namespace: request.namespace.clone().filter(|_| resource.is_namespaced),
            name: name.clone(),
        };
        Some(MetricValue {
            object,
            metric: request.metric.clone(),
            metric_selector: request.metric_selector.clone(),
            at: sample.at,
            window_seconds: None,
            value: *value,
        })
    });
    let found: Vec<MetricValue> = found.collect();
    if found.is_empty() {
        let of = match &request.objects {
            ObjectSelector::Name(name) => format!("{} {name}", resource.resource),
            ObjectSelector::Labels(_) => format!("any of {} {}", names.len(), resource.resource),
        };
        let why = nothing(samples);
        return Err(StatusError::NotFound(format!(
            "the server could not find the metric {} for {of} ({why})",
            request.metric
        )));
    }
    Ok(found)
}

/// Returns the values of an external metric. If a value is not a number, there are none: the sum of
/// the others would be too small.
pub(super) fn external(
    metric: &str,
    samples: &[InstantSample],
) -> Result<Vec<ExternalValue>, StatusError> {
    let refuse = |why: &str| {
        StatusError::NotFound(format!(
            "the server could not find the metric {metric} ({why})"
        ))
    };
    if samples.is_empty() {
        return Err(refuse(nothing(samples)));
    }
    if samples.len() > MAX_EXTERNAL {
        return Err(refuse(&format!(
            "there are {} series; the query should aggregate them",
            samples.len()
        )));
    }
    let values = samples.iter().map(|sample| {
        let value = MilliValue::from_units(sample.value);
        let value = value.ok_or_else(|| refuse("a value is not a number"))?;
        Ok(ExternalValue {
            metric: metric.to_owned(),
            labels: sample.labels.clone(),
            at: sample.at,
            window_seconds: None,
            value,
        })
    });
    values.collect()
}

fn nothing(samples: &[InstantSample]) -> &'static str {
    match samples {
        [] => "Prometheus has no values",
        samples if samples.iter().all(|sample| !sample.value.is_finite()) => {
            "its values are not numbers"
        }
        _ => "its values are of other objects",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use model::Selector;

    use sources::rules::ApiResources;

    use super::*;
    use crate::request::GroupResource;

    fn samples(samples: &[(&str, f64)]) -> Vec<InstantSample> {
        let sample = |(pod, value): &(&str, f64)| InstantSample {
            labels: BTreeMap::from([("pod".to_owned(), (*pod).to_owned())]),
            at: Timestamp::from_second(7).expect("in range"),
            value: *value,
        };
        samples.iter().map(sample).collect()
    }

    fn check(found: &[(&str, f64)], expected: Result<&[(&str, &str)], &str>) {
        let request = CustomMetricRequest {
            namespace: Some("shop".to_owned()),
            resource: GroupResource {
                group: String::new(),
                resource: "pods".to_owned(),
            },
            objects: ObjectSelector::Labels(Selector::everything()),
            metric: "http_requests".to_owned(),
            metric_selector: Selector::everything(),
        };
        let resources = ApiResources::built_in();
        let resource = resources.find("", "pods").cloned().expect("pods");
        let object_labels = ObjectLabels {
            resource,
            label: "pod".to_owned(),
            namespace_label: Some("namespace".to_owned()),
        };
        let names = ["a".to_owned(), "b".to_owned()];
        let got = of_objects(&request, &object_labels, &names, &samples(found));
        let got = got.map(|values| {
            let value = |value: MetricValue| {
                assert_eq!(value.object.kind, "Pod");
                assert_eq!(value.object.namespace.as_deref(), Some("shop"));
                assert_eq!(value.at.as_second(), 7);
                (value.object.name, value.value.to_string())
            };
            values.into_iter().map(value).collect::<Vec<_>>()
        });
        match expected {
            Ok(expected) => {
                let owned =
                    |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
                assert_eq!(got, Ok(expected.iter().map(owned).collect()), "{found:?}");
            }
            Err(part) => {
                let error = got.expect_err(part).to_string();
                assert!(error.contains(part), "{error}");
            }
        }
    }

    #[test]
    fn each_object_has_one_value_in_thousandths() {
        let three = [("a", 0.016_66), ("b", 22.0), ("c", 9.0)];
        check(&three, Ok(&[("a", "17m"), ("b", "22")]));
        check(&[("a", 1.0), ("a", 3.0), ("a", 2.0)], Ok(&[("a", "3")]));
        check(&[("a", -1.0)], Ok(&[("a", "0")]));
    }

    #[test]
    fn a_sample_that_is_not_a_number_has_no_value() {
        check(&[("a", f64::NAN), ("b", 1.0)], Ok(&[("b", "1")]));
        let odd = [("a", f64::NAN), ("b", f64::INFINITY)];
        check(&odd, Err("its values are not numbers"));
        check(&[], Err("Prometheus has no values"));
        check(&[("c", 1.0)], Err("its values are of other objects"));
    }

    #[test]
    fn an_external_metric_has_all_values_or_none() {
        let values = |found: &[(&str, f64)]| {
            let values = external("depth", &samples(found));
            values.map(|values| values.iter().map(|value| value.value.milli()).sum::<i64>())
        };
        assert_eq!(values(&[("a", 1.5), ("b", 2.0)]), Ok(3500));
        assert!(values(&[("a", 1.5), ("b", f64::NAN)]).is_err());
        assert!(values(&[]).is_err());
        assert!(values(&vec![("a", 1.0); MAX_EXTERNAL + 1]).is_err());
    }
}

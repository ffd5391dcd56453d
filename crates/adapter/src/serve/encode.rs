//! Serialization of values for `custom.metrics.k8s.io` (v1beta1 and v1beta2) and
//! `external.metrics.k8s.io`. v1beta2 has `metric.name` and `windowSeconds` in place of
//! `metricName` and `window`.
//!
//! Source: `k8s.io/metrics/pkg/apis`. Numbers are strings, so that no client parses them as
//! floating point.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use model::{Requirement, Selector};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::request::{ApiVersion, StatusError};
use crate::value::{DescribedObject, ExternalValue, MetricValue};

pub(super) fn custom(version: ApiVersion, values: &[MetricValue]) -> Value {
    let items = values.iter().map(|value| {
        let mut item = json!({
            "describedObject": object(&value.object),
            "timestamp": time(value.at),
            "value": value.value.to_string(),
        });
        let selector = selector(&value.metric_selector);
        if version == ApiVersion::CustomV1Beta1 {
            item["metricName"] = json!(value.metric);
            item["selector"] = selector;
            window(&mut item, "window", value.window_seconds);
        } else {
            item["metric"] = json!({"name": value.metric, "selector": selector});
            window(&mut item, "windowSeconds", value.window_seconds);
        }
        item
    });
    list(version, items)
}

pub(super) fn external(values: &[ExternalValue]) -> Value {
    let items = values.iter().map(|value| {
        let mut item = json!({
            "metricName": value.metric,
            "metricLabels": value.labels,
            "timestamp": time(value.at),
            "value": value.value.to_string(),
        });
        window(&mut item, "window", value.window_seconds);
        item
    });
    list(ApiVersion::External, items)
}

fn list(version: ApiVersion, items: impl Iterator<Item = Value>) -> Value {
    json!({
        "kind": version.list_kind(), "apiVersion": version.name(), "metadata": {},
        "items": items.collect::<Value>(),
    })
}

fn window(item: &mut Value, name: &str, seconds: Option<u32>) {
    if let Some(seconds) = seconds {
        item[name] = json!(seconds);
    }
}

fn object(object: &DescribedObject) -> Value {
    let mut described =
        json!({"kind": object.kind, "name": object.name, "apiVersion": object.api_version});
    if let Some(namespace) = &object.namespace {
        described["namespace"] = json!(namespace);
    }
    described
}

/// Formats a time in UTC, in seconds.
fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns a selector as a `LabelSelector`; null if it matches everything.
fn selector(selector: &Selector) -> Value {
    if selector.requirements().is_empty() {
        return Value::Null;
    }
    let (mut labels, mut expressions) = (Map::new(), Vec::new());
    for requirement in selector.requirements() {
        let (operator, values): (_, Vec<String>) = match requirement {
            Requirement::In(key, values) if values.len() == 1 && !labels.contains_key(key) => {
                labels.extend(values.iter().map(|value| (key.clone(), json!(value))));
                continue;
            }
            Requirement::In(_, values) => ("In", values.iter().cloned().collect()),
            Requirement::NotIn(_, values) => ("NotIn", values.iter().cloned().collect()),
            Requirement::Exists(_) => ("Exists", Vec::new()),
            Requirement::DoesNotExist(_) => ("DoesNotExist", Vec::new()),
            Requirement::GreaterThan(_, than) => ("Gt", vec![than.to_string()]),
            Requirement::LessThan(_, than) => ("Lt", vec![than.to_string()]),
        };
        let mut expression = json!({"key": requirement.key(), "operator": operator});
        if !values.is_empty() {
            expression["values"] = json!(values);
        }
        expressions.push(expression);
    }
    let mut selector = json!({});
    if !labels.is_empty() {
        selector["matchLabels"] = Value::Object(labels);
    }
    if !expressions.is_empty() {
        selector["matchExpressions"] = json!(expressions);
    }
    selector
}

/// The largest length of a message, which becomes a part of a condition's message.
const MAX_CHARACTERS: usize = 300;
const SERIALIZATION_FAILED: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the response cannot be serialized","reason":"InternalError","code":500}"#;

pub(super) fn code_and_reason(error: &StatusError) -> (StatusCode, &'static str) {
    match error {
        StatusError::NotFound(_) => (StatusCode::NOT_FOUND, "NotFound"),
        StatusError::BadRequest(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
        StatusError::Forbidden(_) => (StatusCode::FORBIDDEN, "Forbidden"),
        StatusError::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized"),
        StatusError::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
        StatusError::Timeout(_) => (StatusCode::GATEWAY_TIMEOUT, "Timeout"),
        StatusError::TooManyRequests => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
        StatusError::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
        StatusError::InternalError(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
    }
}

pub(super) fn failure(error: &StatusError) -> Response {
    let (code, reason) = code_and_reason(error);
    let body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": one_line(&error.to_string()),
        "reason": reason,
        "code": code.as_u16(),
    });
    let mut response = json_response(code, &body);
    if code == StatusCode::METHOD_NOT_ALLOWED {
        response
            .headers_mut()
            .insert(header::ALLOW, HeaderValue::from_static("GET"));
    }
    response
}

pub(super) fn json_response(code: StatusCode, body: &impl Serialize) -> Response {
    let text = match serde_json::to_vec(body) {
        Ok(text) => text,
        Err(error) => {
            tracing::error!(%error, "cannot serialize a response");
            let headers = [(header::CONTENT_TYPE, "application/json")];
            return (
                StatusCode::INTERNAL_SERVER_ERROR,
                headers,
                SERIALIZATION_FAILED,
            )
                .into_response();
        }
    };
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-cache, private"),
    ];
    (code, headers, text).into_response()
}

fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_CHARACTERS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::MilliValue;

    fn check(found: &Value, expected: &str) {
        let expected: Value = serde_json::from_str(expected).expect("a document");
        assert_eq!(*found, expected);
    }

    fn at() -> Timestamp {
        "2026-08-20T12:00:00.987+02:00".parse().expect("a time")
    }

    fn described(kind: &str, namespace: Option<&str>, name: &str) -> DescribedObject {
        DescribedObject {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }

    fn pod() -> MetricValue {
        MetricValue {
            object: described("Pod", Some("shop"), "cart-1"),
            metric: "rps".to_owned(),
            metric_selector: Selector::everything(),
            at: at(),
            window_seconds: Some(60),
            value: MilliValue::from_milli(1500),
        }
    }

    #[test]
    fn each_version_has_its_own_names() {
        check(
            &custom(ApiVersion::CustomV1Beta2, &[pod()]),
            include_str!("../../tests/golden/pods-v1beta2.json"),
        );
        check(
            &custom(ApiVersion::CustomV1Beta1, &[pod()]),
            include_str!("../../tests/golden/pods-v1beta1.json"),
        );
        let depth = ExternalValue {
            metric: "queue_depth".to_owned(),
            labels: [("queue".to_owned(), "a".to_owned())].into(),
            at: at(),
            window_seconds: None,
            value: MilliValue::from_milli(42_000),
        };
        let forecast = ExternalValue {
            window_seconds: Some(300),
            labels: [].into(),
            ..depth.clone()
        };
        check(
            &external(&[depth, forecast]),
            include_str!("../../tests/golden/external.json"),
        );
    }

    #[test]
    fn a_cluster_scoped_object_has_no_namespace_and_selectors_are_echoed() {
        let selector = "verb=GET,code in (200,204),!debug,size>3";
        let node = MetricValue {
            object: described("Node", None, "n-1"),
            metric_selector: selector.parse().expect("a selector"),
            window_seconds: None,
            ..pod()
        };
        check(
            &custom(ApiVersion::CustomV1Beta2, std::slice::from_ref(&node)),
            include_str!("../../tests/golden/node-v1beta2.json"),
        );
        check(
            &custom(ApiVersion::CustomV1Beta1, &[node]),
            include_str!("../../tests/golden/node-v1beta1.json"),
        );
    }

    #[test]
    fn a_message_becomes_one_short_line() {
        assert_eq!(one_line("a\nb\tc\u{7}"), "a b c ");
        assert_eq!(one_line(&"ß".repeat(1000)).chars().count(), 300);
    }
}

//! One question to another provider and its answer: `GET` on the path of `external.metrics.k8s.io`, bounded in time and size.

use std::time::Duration;

use api::external_metrics::{API_VERSION, ExternalMetricValue, ExternalMetricValueList};
use form_urlencoded::byte_serialize;
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper_util::client::legacy::Error as ClientError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Client;
use kube::client::Body;

use super::hops::HEADER;
use crate::answer::{ExternalValue, MilliValue};
use crate::ask::ExternalAsk;

/// Of one answer.
const MOST_BYTES: usize = 1 << 20;
/// Of one answer.
const MOST_VALUES: usize = 1000;
/// Of what another provider says about itself: the autoscaler shows it in an event.
const MOST_CHARACTERS: usize = 200;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExchangeError {
    /// It says that it does not have the metric.
    #[error("{0}")]
    NotFound(String),
    /// It says that the question makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// It lets us not ask.
    #[error("it does not let the adapter's service account read ({code}): {message}")]
    NoLeave {
        /// The code.
        code: u16,
        /// What it says.
        message: String,
    },
    /// It answered with something else.
    #[error("it answered {code}: {message}")]
    Code {
        /// The code.
        code: u16,
        /// What it says.
        message: String,
    },
    /// The answer cannot be used.
    #[error("its answer cannot be used: {0}")]
    Nonsense(String),
    /// There was none.
    #[error("no answer: {0}")]
    Lost(String),
    /// There was none in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

impl ExchangeError {
    /// Whether it is there at all, and in its senses.
    pub(super) fn is_alive(&self) -> bool {
        matches!(self, Self::NotFound(_) | Self::BadRequest(_) | Self::NoLeave { .. })
    }
}

/// Asks once more if there was no connection, and not otherwise: then the question may have been heard.
pub(super) async fn exchange(
    client: &Client,
    ask: &ExternalAsk,
    hops: &HeaderValue,
    time: Duration,
) -> Result<Vec<ExternalValue>, ExchangeError> {
    let trying = async {
        match send(client, ask, hops).await {
            Err(error) if is_without_connection(&error) => send(client, ask, hops).await,
            sent => sent,
        }
    };
    let exchange = async {
        let response = trying.await.map_err(|error| ExchangeError::Lost(chain(&error)))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MOST_BYTES).collect().await;
        let bytes = body.map_err(|error| ExchangeError::Lost(chain(&*error)))?.to_bytes();
        if parts.status.is_success() { values(ask, &bytes) } else { Err(refusal(parts.status, &bytes)) }
    };
    tokio::time::timeout(time, exchange).await.map_err(|_| ExchangeError::Timeout(time))?
}

async fn send(client: &Client, ask: &ExternalAsk, hops: &HeaderValue) -> kube::Result<http::Response<Body>> {
    let request = Request::get(path(ask)).header(HEADER, hops).header(http::header::ACCEPT, "application/json");
    client.send(request.body(Body::empty()).map_err(kube::Error::HttpError)?).await
}

/// Neither part holds white space that would be encoded differently in a path and in a query.
fn path(ask: &ExternalAsk) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
    let (namespace, metric) = (encoded(&ask.namespace), encoded(&ask.metric));
    let path = format!("/apis/{API_VERSION}/namespaces/{namespace}/{metric}");
    if ask.selector.requirements().is_empty() {
        return path;
    }
    format!("{path}?labelSelector={}", encoded(&ask.selector.to_string()))
}

fn values(ask: &ExternalAsk, bytes: &[u8]) -> Result<Vec<ExternalValue>, ExchangeError> {
    let nonsense = |why: String| ExchangeError::Nonsense(why);
    let list: ExternalMetricValueList = serde_json::from_slice(bytes).map_err(|error| nonsense(error.to_string()))?;
    if list.items.is_empty() {
        return Err(ExchangeError::NotFound(format!("there are no values of the metric {}", ask.metric)));
    }
    if list.items.len() > MOST_VALUES {
        return Err(nonsense(format!("{} values, at most {MOST_VALUES} are possible", list.items.len())));
    }
    list.items
        .into_iter()
        .map(|item| value(ask, item).ok_or_else(|| nonsense("a value is no quantity".to_owned())))
        .collect()
}

fn value(ask: &ExternalAsk, item: ExternalMetricValue) -> Option<ExternalValue> {
    let ExternalMetricValue { metric_name, metric_labels, timestamp, window, value } = item;
    Some(ExternalValue {
        metric: if metric_name.is_empty() { ask.metric.clone() } else { metric_name },
        labels: metric_labels,
        at: timestamp.0,
        window_seconds: window.and_then(|seconds| u32::try_from(seconds).ok()),
        value: MilliValue::from_milli(value?.milli_value()),
    })
}

fn refusal(code: StatusCode, bytes: &[u8]) -> ExchangeError {
    let status: Option<Status> = serde_json::from_slice(bytes).ok();
    let message = status.and_then(|status| status.message).filter(|message| !message.is_empty());
    let message = message.unwrap_or_else(|| code.canonical_reason().unwrap_or("no reason").to_owned());
    let message: String = message.chars().filter(|one| !one.is_control()).take(MOST_CHARACTERS).collect();
    match code.as_u16() {
        404 => ExchangeError::NotFound(message),
        400 => ExchangeError::BadRequest(message),
        code @ (401 | 403) => ExchangeError::NoLeave { code, message },
        code => ExchangeError::Code { code, message },
    }
}

fn is_without_connection(error: &kube::Error) -> bool {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if error.downcast_ref::<ClientError>().is_some_and(ClientError::is_connect) {
            return true;
        }
        source = error.source();
    }
    false
}

/// An error with everything behind it.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(metric: &str, selector: &str) -> ExternalAsk {
        let selector = selector.parse().unwrap();
        ExternalAsk { namespace: "shop".to_owned(), metric: metric.to_owned(), selector }
    }

    #[test]
    fn a_question_is_spelt_as_the_api_server_spells_it() {
        let base = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop";
        assert_eq!(path(&ask("queue", "")), format!("{base}/queue"));
        assert_eq!(path(&ask("a b|c", "x in (a, b)")), format!("{base}/a%20b%7Cc?labelSelector=x%20in%20%28a%2Cb%29"));
    }

    fn check(code: u16, body: &str, expected: &ExchangeError) {
        let code = StatusCode::from_u16(code).unwrap();
        let found = if code.is_success() {
            values(&ask("queue", ""), body.as_bytes()).unwrap_err()
        } else {
            refusal(code, body.as_bytes())
        };
        assert_eq!(found, *expected, "{body}");
    }

    #[test]
    fn what_is_no_answer_is_told_apart() {
        let status = |message: &str| format!(r#"{{"kind": "Status", "message": "{message}"}}"#);
        check(404, &status("no such metric"), &ExchangeError::NotFound("no such metric".to_owned()));
        check(404, "plain", &ExchangeError::NotFound("Not Found".to_owned()));
        check(403, &status("no"), &ExchangeError::NoLeave { code: 403, message: "no".to_owned() });
        check(503, "", &ExchangeError::Code { code: 503, message: "Service Unavailable".to_owned() });
        let none = "there are no values of the metric queue".to_owned();
        check(200, r#"{"items": []}"#, &ExchangeError::NotFound(none));
        let item = r#"{"metricName": "queue", "timestamp": "2026-01-01T00:00:00Z", "value": "?"}"#;
        let nonsense = ExchangeError::Nonsense("a value is no quantity".to_owned());
        check(200, &format!(r#"{{"items": [{item}]}}"#), &nonsense);
        assert!(matches!(values(&ask("queue", ""), b"<html>"), Err(ExchangeError::Nonsense(_))));
        assert!(matches!(refusal(StatusCode::BAD_GATEWAY, "x\n".repeat(1000).as_bytes()), ExchangeError::Code { .. }));
    }

    #[test]
    fn values_are_taken_as_they_are_with_their_time() {
        let body = r#"{"items": [{"metricName": "queue", "metricLabels": {"a": "b"}, "window": 60,
            "timestamp": "2026-01-01T00:00:00Z", "value": "0.1m"}]}"#;
        let found = values(&ask("queue", ""), body.as_bytes()).unwrap();
        assert_eq!(found[0].at.to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(
            (found[0].value.milli(), found[0].window_seconds),
            (1, Some(60)),
            "rounded up, as the autoscaler does"
        );
    }
}

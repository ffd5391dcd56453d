//! A refusal as Kubernetes writes it: a `Status` object. Whatever is no `Status` reaches the user
//! of an autoscaler as a sentence that says nothing. Nothing here ever asks clients to come back
//! later: the autoscaler's few workers would wait that long.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::json;

use crate::refusal::Refusal;

/// The text becomes the end of a condition's message. Longer ones are cut.
const LONGEST: usize = 300;
/// Sent in place of an answer that cannot be written.
const UNWRITABLE: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the answer cannot be written","reason":"InternalError","code":500}"#;

/// Code and reason of a refusal.
pub(super) fn code_and_reason(refusal: &Refusal) -> (StatusCode, &'static str) {
    match refusal {
        Refusal::NotFound(_) => (StatusCode::NOT_FOUND, "NotFound"),
        Refusal::BadRequest(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
        Refusal::Forbidden(_) => (StatusCode::FORBIDDEN, "Forbidden"),
        Refusal::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized"),
        Refusal::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
        Refusal::Timeout(_) => (StatusCode::GATEWAY_TIMEOUT, "Timeout"),
        Refusal::TooMany => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
        Refusal::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
        Refusal::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
    }
}

/// The answer to a request that gets nothing else.
pub(super) fn refused(refusal: &Refusal) -> Response {
    let (code, reason) = code_and_reason(refusal);
    let body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": one_line(&refusal.to_string()),
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

/// An answer in JSON.
pub(super) fn json_response(code: StatusCode, body: &impl Serialize) -> Response {
    let text = match serde_json::to_vec(body) {
        Ok(text) => text,
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written");
            let headers = [(header::CONTENT_TYPE, "application/json")];
            return (StatusCode::INTERNAL_SERVER_ERROR, headers, UNWRITABLE).into_response();
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
        .take(LONGEST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_from_elsewhere_becomes_one_short_line() {
        assert_eq!(one_line("a\nb\tc\u{7}"), "a b c ");
        assert_eq!(one_line(&"ß".repeat(1000)).chars().count(), 300);
    }
}

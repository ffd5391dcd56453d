//! Serialization of errors as `Status` objects: the HPA controller replaces any other body with a
//! generic message. No response has a `Retry-After` header, which the controller's few workers
//! would obey.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::json;

use crate::status_error::StatusError;

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

    #[test]
    fn a_message_becomes_one_short_line() {
        assert_eq!(one_line("a\nb\tc\u{7}"), "a b c ");
        assert_eq!(one_line(&"ß".repeat(1000)).chars().count(), 300);
    }
}

//! Requests to another provider of `external.metrics.k8s.io`, with the adapter's own identity.

use std::path::Path;

use api::external_metrics::{API_VERSION, ExternalMetricValueList};
use form_urlencoded::byte_serialize;
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper_util::client::legacy::Error as ClientError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Client;
use kube::client::{Body, ClientBuilder};
use kube::config::{AuthInfo, Config};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use sources::error_chain::with_causes;

use super::pem_reader::PemReader;
use super::response::{MAX_BYTES, UpstreamError, truncated, values};
use super::{CONNECT_TIMEOUT, HEADER};
use crate::request::ExternalMetricRequest;
use crate::value::ExternalValue;
use metric_routes::UpstreamSpec;

#[derive(Clone)]
pub(super) struct Aggregated {
    client: Client,
    /// The CA bundle (PEM).
    authorities: Vec<u8>,
}

impl Aggregated {
    /// `token`: the file with the adapter's service account token.
    pub(super) async fn open(
        spec: &UpstreamSpec,
        reader: &PemReader,
        token: &Path,
    ) -> Result<Self, String> {
        let authorities = reader.authorities(spec).await?;
        Ok(Self {
            client: client(spec, &authorities, token)?,
            authorities,
        })
    }

    pub(super) async fn is_up_to_date(&self, spec: &UpstreamSpec, reader: &PemReader) -> bool {
        let read = reader.authorities(spec).await;
        read.is_ok_and(|read| read == self.authorities)
    }

    /// Sends a request, once more if the connection could not be established. Otherwise the
    /// provider may have received it.
    pub(super) async fn exchange(
        &self,
        request: &ExternalMetricRequest,
        via: &HeaderValue,
    ) -> Result<Vec<ExternalValue>, UpstreamError> {
        let sent = match send(&self.client, request, via).await {
            Err(error) if is_connection_error(&error) => send(&self.client, request, via).await,
            sent => sent,
        };
        let (parts, body) = sent
            .map_err(|error| UpstreamError::connection(with_causes(&error)))?
            .into_parts();
        let body = Limited::new(body, MAX_BYTES).collect().await;
        let bytes = body
            .map_err(|error| UpstreamError::connection(with_causes(&*error)))?
            .to_bytes();
        if parts.status.is_success() {
            values_in(request, &bytes)
        } else {
            Err(refusal(parts.status, &bytes))
        }
    }
}

fn client(spec: &UpstreamSpec, authorities: &[u8], token: &Path) -> Result<Client, String> {
    let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(authorities).collect();
    let source = spec.authorities().ok_or("there is no CA bundle")?;
    let roots: Vec<CertificateDer<'_>> = roots.map_err(|error| format!("{source}: {error}"))?;
    if roots.is_empty() {
        return Err(format!("{source}: no certificate"));
    }
    let mut config = Config::new(spec.uri()?);
    config.root_cert = Some(roots.iter().map(|root| root.to_vec()).collect());
    config.tls_server_name = Some(spec.server_name()?);
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.default_retry = false;
    // kube reads the file every minute.
    config.auth_info = AuthInfo {
        token_file: Some(token.display().to_string()),
        ..AuthInfo::default()
    };
    Ok(ClientBuilder::try_from(config)
        .map_err(|error| format!("no client: {error}"))?
        .build())
}

async fn send(
    client: &Client,
    request: &ExternalMetricRequest,
    via: &HeaderValue,
) -> kube::Result<http::Response<Body>> {
    let request = Request::get(path(request))
        .header(HEADER, via)
        .header(http::header::ACCEPT, "application/json")
        .body(Body::empty());
    client.send(request.map_err(kube::Error::HttpError)?).await
}

/// Encodes spaces as `%20`, which means the same in a path and in a query.
fn path(request: &ExternalMetricRequest) -> String {
    let encoded = |text: &str| {
        byte_serialize(text.as_bytes())
            .collect::<String>()
            .replace('+', "%20")
    };
    let (namespace, metric) = (encoded(&request.namespace), encoded(&request.metric));
    let path = format!("/apis/{API_VERSION}/namespaces/{namespace}/{metric}");
    if request.selector.requirements().is_empty() {
        return path;
    }
    format!(
        "{path}?labelSelector={}",
        encoded(&request.selector.to_string())
    )
}

fn values_in(
    request: &ExternalMetricRequest,
    bytes: &[u8],
) -> Result<Vec<ExternalValue>, UpstreamError> {
    let list: ExternalMetricValueList =
        serde_json::from_slice(bytes).map_err(|error| UpstreamError::Invalid(error.to_string()))?;
    values(request, list.items)
}

fn refusal(code: StatusCode, bytes: &[u8]) -> UpstreamError {
    let status: Option<Status> = serde_json::from_slice(bytes).ok();
    let message = status.and_then(|status| status.message);
    let message = message.filter(|message| !message.is_empty());
    let reason = code.canonical_reason().unwrap_or("no reason");
    let message = truncated(message.as_deref().unwrap_or(reason));
    match code.as_u16() {
        404 => UpstreamError::NotFound(message),
        400 => UpstreamError::BadRequest(message),
        code @ (401 | 403) => UpstreamError::Denied { code, message },
        code => UpstreamError::Code { code, message },
    }
}

fn is_connection_error(error: &kube::Error) -> bool {
    let mut causes = anyhow::Chain::new(error).filter_map(|error| error.downcast_ref());
    causes.any(ClientError::is_connect)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(metric: &str, selector: &str) -> ExternalMetricRequest {
        ExternalMetricRequest::new("shop", metric, selector)
    }

    #[test]
    fn a_path_is_encoded_as_by_the_api_server() {
        let base = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop";
        assert_eq!(path(&ask("queue", "")), format!("{base}/queue"));
        assert_eq!(
            path(&ask("a b|c", "x in (a, b)")),
            format!("{base}/a%20b%7Cc?labelSelector=x%20in%20%28a%2Cb%29")
        );
    }

    fn check(code: u16, body: &str, expected: &UpstreamError) {
        let code = StatusCode::from_u16(code).unwrap();
        let found = if code.is_success() {
            values_in(&ask("queue", ""), body.as_bytes()).unwrap_err()
        } else {
            refusal(code, body.as_bytes())
        };
        assert_eq!(found, *expected, "{body}");
    }

    #[test]
    fn errors_are_classified() {
        let status = |message: &str| format!(r#"{{"kind": "Status", "message": "{message}"}}"#);
        let not_found = |message: &str| UpstreamError::NotFound(message.to_owned());
        check(404, &status("no such metric"), &not_found("no such metric"));
        check(404, "plain", &not_found("Not Found"));
        let (code, message) = (403, "no".to_owned());
        check(403, &status("no"), &UpstreamError::Denied { code, message });
        let (code, message) = (503, "Service Unavailable".to_owned());
        check(503, "", &UpstreamError::Code { code, message });
        let none = not_found("there are no values of the metric queue");
        check(200, r#"{"items": []}"#, &none);
        let item = |value: &str| {
            format!(
                r#"{{"items": [{{"metricName": "queue", "timestamp": "2026-01-01T00:00:00Z", "value": "{value}"}}]}}"#
            )
        };
        let invalid = UpstreamError::Invalid("a value is not a quantity".to_owned());
        check(200, &item("?"), &invalid);
        let no_value = UpstreamError::NoValue("a value is not a number".to_owned());
        for number in ["-9223372036854775808m", "9223372036854775807m"] {
            check(200, &item(number), &no_value);
        }
        let alive =
            |code: u16| refusal(StatusCode::from_u16(code).unwrap(), b"").is_provider_alive();
        assert!([400, 401, 403, 404, 418, 500, 501].into_iter().all(alive));
        assert!(![429, 502, 503, 504].into_iter().any(alive));
        assert!(matches!(
            values_in(&ask("queue", ""), b"<html>"),
            Err(UpstreamError::Invalid(_))
        ));
        assert!(matches!(
            refusal(StatusCode::BAD_GATEWAY, "x\n".repeat(1000).as_bytes()),
            UpstreamError::Code { .. }
        ));
    }

    #[test]
    fn values_keep_their_timestamps() {
        let body = r#"{"items": [{"metricName": "queue", "metricLabels": {"a": "b"}, "window": 60,
            "timestamp": "2026-01-01T00:00:00Z", "value": "0.1m"}]}"#;
        let found = values_in(&ask("queue", ""), body.as_bytes()).unwrap();
        assert_eq!(found[0].at.to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(
            (found[0].value.milli(), found[0].window_seconds),
            (1, Some(60)),
            "rounded up, as the autoscaler does"
        );
    }
}

//! Requests to KEDA's operator: gRPC over mutual TLS, as from KEDA's own provider. A request names
//! one `ScaledObject`.
//!
//! There are no keep-alive pings: the operator's library closes a connection with more than one
//! ping in five minutes. A dead connection shows as a request that times out, and is then replaced.

#[allow(missing_docs, unreachable_pub, clippy::pedantic)]
mod proto {
    tonic::include_proto!("api");
}

use parking_lot::Mutex;
use std::error::Error as _;
use std::sync::Arc;

use api::external_metrics::ExternalMetricValue;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::Requirement;
use runtime::LogOnce;
use rustls_pki_types::ServerName;
use serving::tls::{ClientTls, Reload};
use sources::error_chain::with_causes;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, ConnectError, Status};

use super::CONNECT_TIMEOUT;
use super::pem_reader::PemReader;
use super::response::{MAX_BYTES, UpstreamError, truncated, values};
use crate::request::ExternalMetricRequest;
use crate::value::ExternalValue;
use metric_routes::{KEDA_KEY, UpstreamSpec};
use proto::metrics_service_client::MetricsServiceClient;
use proto::{ExternalMetricValueList, ScaledObjectRef};

#[derive(Clone)]
pub(super) struct Keda(Arc<Shared>);

struct Shared {
    name: String,
    /// The address as `host:port`.
    address: String,
    server_name: ServerName<'static>,
    tls: ClientTls,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The channel, which connects with the first request and reconnects after a failure.
    channel: Option<Channel>,
    /// The error of the certificates.
    logged: LogOnce<String>,
}

impl Keda {
    /// Loads the certificates, which must be valid.
    pub(super) async fn open(spec: &UpstreamSpec, reader: &PemReader) -> Result<Self, String> {
        let (contents, places) = reader.client_contents(spec).await?;
        let tls = ClientTls::with(contents, places).map_err(|error| error.to_string())?;
        let server_name = spec.server_name()?;
        let server_name =
            ServerName::try_from(server_name).map_err(|error| format!("serverName: {error}"))?;
        let uri = spec.uri()?;
        let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16());
        let address = format!("{host}:{}", port.unwrap_or(443));
        Ok(Self(Arc::new(Shared {
            name: spec.name.clone(),
            address,
            server_name,
            tls,
            state: Mutex::default(),
        })))
    }

    /// Reloads the certificates. If they are not valid, the old ones stay in use.
    pub(super) async fn follow_certificates(&self, spec: &UpstreamSpec, reader: &PemReader) {
        let read = reader.client_contents(spec).await;
        let error = match read.map(|(contents, _)| self.0.tls.replace(contents)) {
            Ok(Reload::Unchanged) => None,
            Ok(Reload::Replaced) => {
                tracing::info!(upstream = self.0.name, "loaded a new certificate");
                self.reconnect();
                None
            }
            Ok(Reload::Kept(error)) => Some(error.to_string()),
            Err(error) => Some(error),
        };
        let mut state = self.0.state.lock();
        if let Some(error) = state.logged.update(error) {
            tracing::error!(
                upstream = self.0.name,
                error,
                "cannot load a certificate; keeping the previous one"
            );
        }
    }

    /// Opens a new connection with the next request; requests in flight keep theirs.
    pub(super) fn reconnect(&self) {
        self.0.state.lock().channel = None;
    }

    /// Sends a request, once more if the connection could not be established. Otherwise the
    /// operator may have received it.
    pub(super) async fn exchange(
        &self,
        request: &ExternalMetricRequest,
    ) -> Result<Vec<ExternalValue>, UpstreamError> {
        let message = ScaledObjectRef {
            name: scaled_object(request)?.to_owned(),
            namespace: request.namespace.clone(),
            metric_name: request.metric.clone(),
        };
        let response = match self.send(message.clone()).await {
            Err(status) if is_connection_error(&status) => self.send(message).await,
            response => response,
        };
        let list = response.map_err(|status| refusal(&status))?;
        let items: Result<_, _> = list.items.into_iter().map(item).collect();
        values(request, items?)
    }

    async fn send(&self, message: ScaledObjectRef) -> Result<ExternalMetricValueList, Status> {
        let mut client =
            MetricsServiceClient::new(self.channel()?).max_decoding_message_size(MAX_BYTES);
        Ok(client.get_metrics(message).await?.into_inner())
    }

    fn channel(&self) -> Result<Channel, Status> {
        let mut state = self.0.state.lock();
        if let Some(channel) = &state.channel {
            return Ok(channel.clone());
        }
        let server_name = &self.0.server_name;
        let endpoint = Endpoint::from_shared(format!("https://{}", server_name.to_str()))
            .map_err(|error| Status::invalid_argument(error.to_string()))?
            .connect_timeout(CONNECT_TIMEOUT);
        let tls = self.0.tls.config();
        let connector = feed::client::connector(&self.0.address, tls, server_name.clone());
        let channel = endpoint.connect_with_connector_lazy(connector);
        state.channel = Some(channel.clone());
        Ok(channel)
    }
}

pub(super) fn scaled_object(request: &ExternalMetricRequest) -> Result<&str, UpstreamError> {
    let named = request
        .selector
        .requirements()
        .iter()
        .find_map(|requirement| match requirement {
            Requirement::In(key, names) if key == KEDA_KEY && names.len() == 1 => names.first(),
            _ => None,
        });
    named.map(String::as_str).ok_or_else(|| {
        UpstreamError::BadRequest(format!(
            "the selector of the metric {} does not name a ScaledObject: {KEDA_KEY}=NAME",
            request.metric
        ))
    })
}

fn item(item: proto::ExternalMetricValue) -> Result<ExternalMetricValue, UpstreamError> {
    let at = item.timestamp;
    let at = at.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok());
    let at = at.ok_or_else(|| UpstreamError::Invalid("a value has no time".to_owned()))?;
    Ok(ExternalMetricValue {
        metric_name: item.metric_name,
        metric_labels: item.metric_labels.into_iter().collect(),
        timestamp: Time(at),
        window: item.window,
        value: item.value.and_then(|quantity| quantity.text.parse().ok()),
    })
}

/// Maps the operator's errors. It responds `UNKNOWN` if a scaler fails, which says nothing about
/// other metrics. An `UNKNOWN` with a source comes from our own library, as do connection errors.
fn refusal(status: &Status) -> UpstreamError {
    let message = truncated(status.message());
    match status.code() {
        Code::NotFound => UpstreamError::NotFound(message),
        Code::InvalidArgument => UpstreamError::BadRequest(message),
        Code::Unimplemented => {
            UpstreamError::Invalid(format!("it does not serve api.MetricsService: {message}"))
        }
        Code::OutOfRange => UpstreamError::Invalid(message),
        Code::Internal if status.source().is_none() => UpstreamError::Invalid(message),
        Code::Unknown if status.source().is_none() => UpstreamError::NoValue(message),
        _ if status.source().is_none() => UpstreamError::Connection {
            message,
            detail: None,
        },
        _ => UpstreamError::connection(with_causes(status)),
    }
}

fn is_connection_error(status: &Status) -> bool {
    anyhow::Chain::new(status).any(|error| error.downcast_ref::<ConnectError>().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(selector: &str) -> ExternalMetricRequest {
        ExternalMetricRequest::new("shop", "s0-cron", selector)
    }

    #[test]
    fn the_selector_names_the_scaled_object() {
        for (selector, expected) in [
            ("scaledobject.keda.sh/name=orders", Some("orders")),
            ("a=b,scaledobject.keda.sh/name=orders", Some("orders")),
            ("scaledobject.keda.sh/name in (orders)", Some("orders")),
            ("scaledobject.keda.sh/name in (orders, carts)", None),
            ("scaledobject.keda.sh/name", None),
            ("scaledobject.keda.sh/name!=orders", None),
            ("", None),
        ] {
            let request = ask(selector);
            assert_eq!(scaled_object(&request).ok(), expected, "{selector}");
        }
    }

    fn check(value: Option<&str>, seconds: i64, expected: Result<i64, &str>) {
        let value = value.map(|text| proto::Quantity {
            text: text.to_owned(),
        });
        let timestamp = Some(proto::Time { seconds, nanos: 0 });
        let sent = proto::ExternalMetricValue {
            timestamp,
            value,
            ..proto::ExternalMetricValue::default()
        };
        let found = item(sent).and_then(|item| values(&ask(""), vec![item]));
        let found = found
            .map(|values| values[0].value.milli())
            .map_err(|error| error.to_string());
        let expected = expected.map_err(|why| format!("its response is not valid: {why}"));
        assert_eq!(found, expected, "{seconds}");
    }

    #[test]
    fn quantities_are_exact_in_thousandths() {
        check(Some("42"), 0, Ok(42_000));
        check(Some("1500m"), 0, Ok(1500));
        check(Some("0.1"), 0, Ok(100));
        check(Some("2Ki"), 0, Ok(2_048_000));
        check(Some("1u"), 0, Ok(1));
        let most = 9_223_372_036_854_775_000;
        check(Some("12345678901234567890"), 0, Ok(most));
        check(Some("-3"), 0, Ok(0));
    }

    #[test]
    fn invalid_quantities_have_no_value() {
        for text in ["NaN", "+Inf", "", "many", "1e", "0x10"] {
            check(Some(text), 0, Err("a value is not a quantity"));
        }
        check(None, 0, Err("a value is not a quantity"));
        check(Some("1"), i64::MAX, Err("a value has no time"));
    }

    #[test]
    fn errors_are_classified() {
        let other = "its response is not valid: it does not serve api.MetricsService: ";
        let large = "its response is not valid: too large";
        for (status, expected, is_provider_alive) in [
            (Status::not_found("no"), "no", true),
            (Status::unknown("scaler: down"), "scaler: down", true),
            (Status::unavailable("a"), "no response: a", false),
            (Status::deadline_exceeded("a"), "no response: a", false),
            (Status::unimplemented(""), other, true),
            (Status::out_of_range("too large"), large, true),
        ] {
            let found = refusal(&status);
            assert_eq!(
                (found.to_string().as_str(), found.is_provider_alive()),
                (expected, is_provider_alive),
                "{status}"
            );
        }
    }
}

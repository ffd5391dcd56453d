//! KEDA's operator, asked as KEDA's own provider asks it: gRPC over mutual TLS, one `ScaledObject`
//! per question.
//!
//! No pings: the operator's library takes more than one in five minutes for an attack and closes
//! the connection. A connection that is dead is found out by a question without an answer, after
//! which there is another one.

#[allow(missing_docs, unreachable_pub, clippy::pedantic)]
mod proto {
    tonic::include_proto!("api");
}

use parking_lot::{Mutex, MutexGuard};
use std::error::Error as _;
use std::sync::Arc;

use api::external_metrics::ExternalMetricValue;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::Requirement;
use rustls_pki_types::ServerName;
use serving::tls::{ClientTls, Reload, TlsFiles};
use sources::causes::with_causes;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, ConnectError, Status};

use super::client::CONNECT_TIMEOUT;
use super::file::{KEDA_KEY, UpstreamSpec};
use super::response::{MAX_BYTES, UpstreamError, sources, truncated, values};
use crate::request::ExternalMetricRequest;
use crate::value::ExternalValue;
use proto::metrics_service_client::MetricsServiceClient;
use proto::{ExternalMetricValueList, ScaledObjectRef};

/// How the operator is asked. Clones share everything.
#[derive(Clone)]
pub(super) struct Keda(Arc<Shared>);

struct Shared {
    name: String,
    /// `host:port`.
    address: String,
    server_name: ServerName<'static>,
    tls: ClientTls,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Connects with the first question, and again when it has lost the connection.
    channel: Option<Channel>,
    /// What was last said about files that cannot be used.
    said: Option<String>,
}

impl Keda {
    /// Reads the files for the first time; they must fit together.
    pub(super) async fn open(spec: &UpstreamSpec) -> Result<Self, String> {
        let (Some(certificate), Some(private_key)) =
            (spec.cert_file.clone(), spec.key_file.clone())
        else {
            return Err("there is no certificate for KEDA's operator".to_owned());
        };
        let files = TlsFiles {
            certificate,
            private_key,
            authorities: Some(spec.ca_file.clone()),
        };
        let tls = ClientTls::load(files)
            .await
            .map_err(|error| error.to_string())?;
        let server_name = spec.server_name()?;
        let server_name =
            ServerName::try_from(server_name).map_err(|error| format!("serverName: {error}"))?;
        let uri = spec.uri()?;
        let (host, port) = (
            uri.host().unwrap_or_default(),
            uri.port_u16().unwrap_or(443),
        );
        let address = format!("{host}:{port}");
        Ok(Self(Arc::new(Shared {
            name: spec.name.clone(),
            address,
            server_name,
            tls,
            state: Mutex::default(),
        })))
    }

    /// Takes over what has changed in the files. Those that cannot be used leave the old ones in
    /// use.
    pub(super) async fn follow_files(&self) {
        let trouble = match self.0.tls.reload().await {
            Reload::Unchanged => None,
            Reload::Replaced => {
                tracing::info!(upstream = self.0.name, "using a new certificate");
                self.reconnect();
                None
            }
            Reload::Kept(error) => Some(error.to_string()),
        };
        let mut state = self.state();
        if let Some(error) = trouble.as_ref().filter(|_| trouble != state.said) {
            tracing::error!(
                upstream = self.0.name,
                error,
                "keeping the old certificate: the new one cannot be used"
            );
        }
        state.said = trouble;
    }

    /// The next question has another connection; those under way keep theirs.
    pub(super) fn reconnect(&self) {
        self.state().channel = None;
    }

    /// Asks once more if there was no connection, and not otherwise: then the question may have
    /// been heard.
    pub(super) async fn exchange(
        &self,
        request: &ExternalMetricRequest,
    ) -> Result<Vec<ExternalValue>, UpstreamError> {
        let question = ScaledObjectRef {
            name: scaled_object(request)?.to_owned(),
            namespace: request.namespace.clone(),
            metric_name: request.metric.clone(),
        };
        let answer = match self.send(question.clone()).await {
            Err(status) if is_connection_error(&status) => self.send(question).await,
            answer => answer,
        };
        let list = answer.map_err(|status| refusal(&status))?;
        values(
            request,
            list.items.into_iter().map(item).collect::<Result<_, _>>()?,
        )
    }

    async fn send(&self, question: ScaledObjectRef) -> Result<ExternalMetricValueList, Status> {
        let mut client =
            MetricsServiceClient::new(self.channel()?).max_decoding_message_size(MAX_BYTES);
        Ok(client.get_metrics(question).await?.into_inner())
    }

    fn channel(&self) -> Result<Channel, Status> {
        let mut state = self.state();
        if let Some(channel) = &state.channel {
            return Ok(channel.clone());
        }
        let Shared {
            address,
            server_name,
            tls,
            ..
        } = &*self.0;
        let endpoint = Endpoint::from_shared(format!("https://{}", server_name.to_str()))
            .map_err(|error| Status::invalid_argument(error.to_string()))?
            .connect_timeout(CONNECT_TIMEOUT);
        let connector = feed::client::connector(address, tls.config(), server_name.clone());
        let channel = endpoint.connect_with_connector_lazy(connector);
        state.channel = Some(channel.clone());
        Ok(channel)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

/// Of which `ScaledObject` a metric is, as its selector says.
pub(super) fn scaled_object(request: &ExternalMetricRequest) -> Result<&str, UpstreamError> {
    let named = request
        .selector
        .requirements()
        .iter()
        .find_map(|requirement| match requirement {
            Requirement::In(key, names) if key == KEDA_KEY && names.len() == 1 => names.first(),
            _ => None,
        });
    let why = || {
        format!(
            "the selector does not say which ScaledObject the metric {} is of: {KEDA_KEY}=NAME",
            request.metric
        )
    };
    named
        .map(String::as_str)
        .ok_or_else(|| UpstreamError::BadRequest(why()))
}

fn item(item: proto::ExternalMetricValue) -> Result<ExternalMetricValue, UpstreamError> {
    let proto::ExternalMetricValue {
        metric_name,
        metric_labels,
        timestamp,
        window,
        value,
    } = item;
    let at = timestamp.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok());
    let at = at.ok_or_else(|| UpstreamError::Invalid("a value has no time".to_owned()))?;
    Ok(ExternalMetricValue {
        metric_name,
        metric_labels: metric_labels.into_iter().collect(),
        timestamp: Time(at),
        window,
        value: value.and_then(|quantity| quantity.text.parse().ok()),
    })
}

/// The operator answers with `UNKNOWN` when a scaler gives it no value: it is well, and other
/// metrics have theirs. An `UNKNOWN` with something behind it is our own library's, as are the
/// errors of the connection.
fn refusal(status: &Status) -> UpstreamError {
    let message = truncated(status.message());
    match status.code() {
        Code::NotFound => UpstreamError::NotFound(message),
        Code::InvalidArgument => UpstreamError::BadRequest(message),
        Code::Unimplemented => {
            UpstreamError::Invalid(format!("it does not know api.MetricsService: {message}"))
        }
        Code::OutOfRange => UpstreamError::Invalid(message),
        Code::Internal if status.source().is_none() => UpstreamError::Invalid(message),
        Code::Unknown if status.source().is_none() => UpstreamError::NoValue(message),
        _ if status.source().is_none() => UpstreamError::Connection {
            said: message,
            detail: None,
        },
        _ => UpstreamError::connection(with_causes(status)),
    }
}

fn is_connection_error(status: &Status) -> bool {
    sources(status).any(|error| error.downcast_ref::<ConnectError>().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(selector: &str) -> ExternalMetricRequest {
        let selector = selector.parse().unwrap();
        ExternalMetricRequest {
            namespace: "shop".to_owned(),
            metric: "s0-cron".to_owned(),
            selector,
        }
    }

    #[test]
    fn the_selector_says_which_scaled_object() {
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
        let expected = expected.map_err(|why| format!("its answer cannot be used: {why}"));
        assert_eq!(found, expected, "{seconds}");
    }

    #[test]
    fn quantities_are_exact_in_thousandths() {
        check(Some("42"), 0, Ok(42_000));
        check(Some("1500m"), 0, Ok(1500));
        check(Some("0.1"), 0, Ok(100));
        check(Some("2Ki"), 0, Ok(2_048_000));
        check(Some("1u"), 0, Ok(1));
        check(
            Some("12345678901234567890"),
            0,
            Ok(9_223_372_036_854_775_000),
        );
        check(Some("-3"), 0, Ok(0));
    }

    #[test]
    fn what_is_no_quantity_is_no_number() {
        for text in ["NaN", "+Inf", "", "many", "1e", "0x10"] {
            check(Some(text), 0, Err("a value is no quantity"));
        }
        check(None, 0, Err("a value is no quantity"));
        check(Some("1"), i64::MAX, Err("a value has no time"));
    }

    #[test]
    fn what_is_no_answer_is_told_apart() {
        for (status, expected, is_provider_alive) in [
            (Status::not_found("no"), "no", true),
            (
                Status::unknown("scaler: down"),
                "it has no value: scaler: down",
                true,
            ),
            (Status::unavailable("gone"), "no answer: gone", false),
            (Status::deadline_exceeded("late"), "no answer: late", false),
            (
                Status::unimplemented(""),
                "its answer cannot be used: it does not know api.MetricsService: ",
                true,
            ),
            (
                Status::out_of_range("too large"),
                "its answer cannot be used: too large",
                true,
            ),
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

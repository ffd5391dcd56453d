//! gRPC server on an open port: feed, health and reflection over mutual TLS.

mod connection;
mod watch;

use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures::Stream;
use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::server::ParsedCertificate;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::service::InterceptorLayer;
use tonic::{Request, Response, Status};

use super::application::{ApplicationReport, check};
use super::proto::feed_server::{Feed, FeedServer};
use super::proto::{
    DESCRIPTION, ForecastsUpdate, RecommendationsUpdate, ReportApplicationsRequest,
    ReportApplicationsResponse, WatchForecastsRequest, WatchRecommendationsRequest,
};
use crate::forecast::Forecast;
use crate::metrics::{Metrics, Refusal};
use crate::publisher::Publisher;

use super::topic::Topic;
use connection::{Peer, accept};
use watch::{ReaderGuard, Watch, not_leading};

/// Takes in reports of the updater. Must not block.
pub type ReportSink = Arc<dyn Fn(Vec<ApplicationReport>) + Send + Sync>;

/// TLS configuration of the next handshake.
pub type CurrentTls = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// Limits of the server.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Open connections; further ones wait. Also the number of concurrent handshakes.
    pub connections: usize,
    /// Concurrent calls per connection.
    pub streams: u32,
    /// Readers over all connections.
    pub readers: usize,
    pub handshake_timeout: Duration,
    /// Interval of keepalive pings, and the time to answer one before the connection is closed.
    pub keepalive: Duration,
    /// Lifetime of a stream. Readers reconnect with their current certificate.
    pub stream_age: Duration,
    /// Size of a request in bytes.
    pub request_bytes: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 128,
            streams: 16,
            readers: 128,
            handshake_timeout: Duration::from_secs(10),
            keepalive: Duration::from_secs(10),
            stream_age: Duration::from_hours(1),
            request_bytes: 64 << 10,
        }
    }
}

const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Server {
    pub publisher: Publisher,
    pub forecasts: Publisher<Forecast>,
    pub reports: ReportSink,
    /// Certificate, key and client CAs. Must require client certificates.
    pub tls: CurrentTls,
    pub allowed: AllowedClients,
    pub reporting: AllowedClients,
    pub limits: ServerLimits,
    pub metrics: Metrics,
}

impl Server {
    /// Serves until `shutdown`.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let server = Arc::new(self);
        let limits = server.limits;
        let service = Service {
            server: Arc::clone(&server),
            shutdown: shutdown.clone(),
            readers: Arc::new(Semaphore::new(limits.readers)),
        };
        let (health, health_service) = tonic_health::server::health_reporter();
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTION)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .context("reflection")?;
        let feed = FeedServer::new(service).max_decoding_message_size(limits.request_bytes);
        let refusals = server.metrics.clone();
        let connections = accept(Arc::clone(&server), listener, shutdown.clone());
        let serving = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(limits.keepalive))
            .http2_keepalive_timeout(Some(limits.keepalive))
            .max_concurrent_streams(Some(limits.streams))
            .layer(InterceptorLayer::new(move |request| {
                admit(request, &refusals)
            }))
            .add_service(health_service)
            .add_service(reflection)
            .add_service(feed)
            .serve_with_incoming_shutdown(connections, shutdown.clone().cancelled_owned());
        let closing = async {
            shutdown.cancelled().await;
            tokio::time::sleep(CLOSE_TIMEOUT).await;
        };
        let reporting = report_health(server.publisher.clone(), health);
        tokio::select! {
            ended = serving => ended.context("transport"),
            () = closing => Ok(()),
            () = reporting => Ok(()),
        }
    }
}

/// Admits calls of allowed clients. Refused clients get the reason, for their operators.
fn admit(request: Request<()>, metrics: &Metrics) -> Result<Request<()>, Status> {
    let peer = request.extensions().get::<Peer>();
    if peer.is_some_and(|peer| peer.is_allowed) {
        return Ok(request);
    }
    metrics.refused(Refusal::Name);
    Err(Status::permission_denied(
        "the client certificate names no client that is allowed here",
    ))
}

/// Reports the feed as healthy while it is served, by the leader only. Ends with the publisher.
async fn report_health(publisher: Publisher, health: tonic_health::server::HealthReporter) {
    let mut state = publisher.published();
    loop {
        let leads = state.borrow_and_update().term.is_some();
        if leads {
            health.set_serving::<FeedServer<Service>>().await;
        } else {
            health.set_not_serving::<FeedServer<Service>>().await;
        }
        let changed = state.wait_for(|now| now.term.is_some() != leads).await;
        if changed.is_err() {
            return;
        }
    }
}

/// Allowed clients: those with one of these DNS names in their certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedClients(Vec<ServerName<'static>>);

/// Parses names separated by commas.
impl FromStr for AllowedClients {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let names = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let names = names.map(|name| match ServerName::try_from(name.to_owned()) {
            Ok(name @ ServerName::DnsName(_)) => Ok(name),
            _ => bail!("{name:?} is not a DNS name"),
        });
        let names = names.collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(!names.is_empty(), "at least one name is needed");
        Ok(Self(names))
    }
}

impl AllowedClients {
    pub fn include(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok(certificate) = ParsedCertificate::try_from(certificate) else {
            return false;
        };
        self.0
            .iter()
            .any(|name| verify_server_name(&certificate, name).is_ok())
    }
}

struct Service {
    server: Arc<Server>,
    shutdown: CancellationToken,
    readers: Arc<Semaphore>,
}

type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Service {
    fn watch<V: Topic>(&self, publisher: &Publisher<V>) -> Result<Watch<V>, Status> {
        let state = publisher.published();
        let term = self.term(publisher)?;
        let permit = self.permit()?;
        let metrics = self.server.metrics.clone();
        Ok(Watch {
            publisher: publisher.clone(),
            term,
            state,
            shutdown: self.shutdown.clone(),
            ends_at: Instant::now() + self.server.limits.stream_age,
            _guard: ReaderGuard::new(metrics.readers.clone(), permit),
            metrics,
        })
    }

    fn term<V: Topic>(&self, publisher: &Publisher<V>) -> Result<u64, Status> {
        let term = publisher.published().borrow().term;
        term.ok_or_else(|| {
            self.server.metrics.refused(Refusal::NotLeading);
            not_leading()
        })
    }

    fn permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.readers).try_acquire_owned().map_err(|_| {
            self.server.metrics.refused(Refusal::TooManyReaders);
            Status::resource_exhausted("too many calls at the same time")
        })
    }
}

#[tonic::async_trait]
impl Feed for Service {
    type WatchRecommendationsStream = Messages<RecommendationsUpdate>;
    type WatchForecastsStream = Messages<ForecastsUpdate>;

    async fn watch_recommendations(
        &self,
        _request: Request<WatchRecommendationsRequest>,
    ) -> Result<Response<Self::WatchRecommendationsStream>, Status> {
        let messages = self.watch(&self.server.publisher)?.messages();
        Ok(Response::new(Box::pin(messages)))
    }

    async fn watch_forecasts(
        &self,
        _request: Request<WatchForecastsRequest>,
    ) -> Result<Response<Self::WatchForecastsStream>, Status> {
        let messages = self.watch(&self.server.forecasts)?.messages();
        Ok(Response::new(Box::pin(messages)))
    }

    async fn report_applications(
        &self,
        request: Request<ReportApplicationsRequest>,
    ) -> Result<Response<ReportApplicationsResponse>, Status> {
        let peer = request.extensions().get::<Peer>();
        if !peer.is_some_and(|peer| peer.may_report) {
            self.server.metrics.refused(Refusal::Name);
            return Err(Status::permission_denied(
                "the client certificate names no client that may report",
            ));
        }
        let term = self.term(&self.server.publisher)?;
        let ReportApplicationsRequest { reports } = request.into_inner();
        check(&reports).map_err(|error| Status::invalid_argument(error.to_string()))?;
        (self.server.reports)(reports);
        Ok(Response::new(ReportApplicationsResponse { term }))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn check(allowed: &str, certificate_names: &[&str], expected: bool) {
        let allowed: AllowedClients = allowed.parse().unwrap();
        let names: Vec<String> = certificate_names.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names)
            .unwrap()
            .self_signed(&key)
            .unwrap();
        assert_eq!(
            allowed.include(certificate.der()),
            expected,
            "{certificate_names:?} in {allowed:?}"
        );
    }

    #[test]
    fn a_certificate_must_carry_one_of_the_names() {
        check("plimsoll-updater", &["plimsoll-updater"], true);
        check(
            "plimsoll-webhook, plimsoll-updater",
            &["other", "plimsoll-updater"],
            true,
        );
        check("plimsoll-updater", &["plimsoll-webhook"], false);
        check("plimsoll-updater", &["plimsoll-updater.example.com"], false);
        check("plimsoll-updater", &["127.0.0.1"], false);
        check("plimsoll-updater", &[], false);
    }

    #[test]
    fn a_list_holds_at_least_one_name() {
        let error = |text: &str| text.parse::<AllowedClients>().unwrap_err().to_string();
        assert_eq!(error(" , "), "at least one name is needed");
        for name in ["a b", "10.0.0.1", "-"] {
            assert_eq!(error(name), format!("{name:?} is not a DNS name"));
        }
    }
}

//! gRPC server on an open port: feed, health and reflection over mutual TLS.

mod allowed_clients;
mod connection;
mod service;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::service::InterceptorLayer;
use tonic::{Request, Status};

use crate::application::ApplicationReport;
use crate::forecast::Forecast;
use crate::metrics::{Metrics, Refusal};
use crate::proto::DESCRIPTION;
use crate::proto::feed_server::FeedServer;
use crate::publisher::Publisher;

use connection::{Peer, accept};
use service::Service;

pub use allowed_clients::AllowedClients;

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

//! The gRPC services on an open port: the feed, health and reflection, over mutual TLS.

mod connection;
mod names;
mod service;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::service::InterceptorLayer;
use tonic::{Request, Status};

use crate::explanation::{Explained, Question};
use crate::forecast::Forecast;
use crate::metrics::{Metrics, Refusal};
use crate::proto::feed_server::FeedServer;
use crate::proto::{DESCRIPTION, feed_server};
use crate::publisher::Publisher;

use connection::{Acceptor, Peer};
use service::Service;

pub use names::{AllowedClients, NameError};

/// Answers a question, or nothing if there is no such container. Called where it may block.
pub type Answer = Arc<dyn Fn(&Question) -> Option<Explained> + Send + Sync>;

/// What the next handshake uses.
pub type CurrentTls = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// What the server gives its clients at most.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Open connections of clients; further ones wait. There are as many handshakes at a time.
    pub connections: usize,
    /// Concurrent calls on one connection.
    pub streams: u32,
    /// Readers of all connections.
    pub readers: usize,
    /// Explanations that are worked out at the same time.
    pub explanations: usize,
    /// Of a TLS handshake.
    pub handshake_timeout: Duration,
    /// A connection is asked whether it still lives after so long, and closed if it does not answer
    /// within as long.
    pub keepalive: Duration,
    /// Of one stream. Readers call again, with the certificate that they have then.
    pub stream_age: Duration,
    /// Bytes of one request.
    pub request_bytes: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 128,
            streams: 16,
            readers: 128,
            explanations: 2,
            handshake_timeout: Duration::from_secs(10),
            keepalive: Duration::from_secs(10),
            stream_age: Duration::from_hours(1),
            request_bytes: 64 << 10,
        }
    }
}

/// How long connections may take to close after shutdown.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A server that is about to start.
pub struct Server {
    /// Recommendations that are told.
    pub publisher: Publisher,
    /// Forecasts that are told.
    pub forecasts: Publisher<Forecast>,
    /// How questions are answered.
    pub answer: Answer,
    /// Certificate, key and the authorities of clients. It must ask for client certificates.
    pub tls: CurrentTls,
    /// Who may connect.
    pub allowed: AllowedClients,
    /// What they get at most.
    pub limits: ServerLimits,
    /// What is measured.
    pub metrics: Metrics,
}

impl Server {
    /// Serves until `shutdown`.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> Result<(), ServeError> {
        let Self {
            publisher,
            forecasts,
            answer,
            tls,
            allowed,
            limits,
            metrics,
        } = self;
        let (health, health_service) = tonic_health::server::health_reporter();
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTION)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()?;
        let service = Service::new(
            publisher.clone(),
            forecasts,
            answer,
            limits,
            metrics.clone(),
            shutdown.clone(),
        );
        let feed = FeedServer::new(service).max_decoding_message_size(limits.request_bytes);
        let refusals = metrics.clone();
        let connections = Acceptor {
            tls,
            allowed,
            limits,
            metrics,
        }
        .accept(listener, shutdown.clone());
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
        let reporting = report_health(publisher, health);
        tokio::select! {
            ended = serving => Ok(ended?),
            () = closing => Ok(()),
            () = reporting => Ok(()),
        }
    }
}

/// Why the server ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The description of the protocol cannot be served.
    #[error("reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The transport failed.
    #[error("transport: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// Lets the calls of allowed clients through. Others are told why not, since their operators will
/// ask.
fn admit(request: Request<()>, metrics: &Metrics) -> Result<Request<()>, Status> {
    if request
        .extensions()
        .get::<Peer>()
        .is_some_and(|peer| peer.is_allowed)
    {
        return Ok(request);
    }
    metrics.refused(Refusal::Name);
    Err(Status::permission_denied(
        "the client certificate names no client that is allowed here",
    ))
}

/// The feed is healthy while it is served, so in the leader only. Does not return while the
/// publisher lasts.
async fn report_health(publisher: Publisher, health: tonic_health::server::HealthReporter) {
    let mut told = publisher.told();
    loop {
        let leads = told.borrow_and_update().term.is_some();
        if leads {
            health.set_serving::<FeedServer<Service>>().await;
        } else {
            health.set_not_serving::<FeedServer<Service>>().await;
        }
        if told
            .wait_for(|told| told.term.is_some() != leads)
            .await
            .is_err()
        {
            return;
        }
    }
}

/// The name under which the health service knows the feed.
pub const SERVICE_NAME: &str = feed_server::SERVICE_NAME;

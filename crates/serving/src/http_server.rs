//! The HTTP server: serves a router on a bound port, with or without TLS, and limits everything
//! that a client can hold on to.

mod connection_limiter;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::tls::{CurrentServerTls, PeerCertificates};
use connection_limiter::{ConnectionLimiter, Slot};

pub use connection_limiter::Peer;

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub connections: usize,
    /// Maximum number of open connections that are not marked as trusted ([`Peer::mark_trusted`]).
    /// Beyond it the least recently used one is evicted, first of the address that has most.
    pub unauthenticated: usize,
    /// Maximum number of concurrent HTTP/2 streams per connection.
    pub streams: u32,
    /// Time limit of the TLS handshake, and again of the first request's headers.
    pub header_timeout: Duration,
    /// Time limit of the headers of each further HTTP/1 request, from the previous response. A
    /// client that closes idle connections itself should do so earlier: it cannot know whether a
    /// request that meets a closing connection was read.
    pub idle_timeout: Duration,
    /// Time limit of one response, including reading the request body.
    pub request_timeout: Duration,
    /// Maximum age of a connection. After it the next response is the last one, and soon after that
    /// the connection is closed.
    pub connection_age: Duration,
    /// Maximum number of header lines per request. With HTTP/2, which counts bytes, 256 bytes each.
    pub headers: usize,
    /// Maximum size of a request body that a handler extracts, in bytes.
    pub body_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            unauthenticated: 256,
            streams: 100,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            connection_age: Duration::from_mins(10),
            headers: 100,
            body_bytes: 1 << 20,
        }
    }
}

impl Limits {
    /// Returns the limits for at most `connections`, with the same share of unauthenticated ones.
    #[must_use]
    pub fn within(self, connections: usize) -> Self {
        if connections >= self.connections {
            return self;
        }
        let unauthenticated =
            self.unauthenticated.saturating_mul(connections) / self.connections.max(1);
        Self {
            connections,
            unauthenticated: unauthenticated.max(1),
            ..self
        }
    }
}

/// Time limit of a graceful close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Size of one header, as HTTP/2 counts it. With HTTP/1 it bounds all of them together, too.
const BYTES_PER_HEADER: usize = 256;
/// Smallest read buffer that hyper takes.
const SMALLEST_BUFFER: usize = 8192;

/// Pause after a failed accept, which is mostly due to a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown`, then lets requests finish. Returns when the last connection is closed.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<CurrentServerTls>,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let server = Arc::new(Server {
        router: with_limits(router, limits),
        tls,
        limits,
        shutdown: shutdown.clone(),
    });
    let limiter = ConnectionLimiter::new(limits.connections, limits.unauthenticated);
    let connections = TaskTracker::new();
    // Shutdown drops `accept` between two connections.
    while let Some(accepted) = shutdown
        .run_until_cancelled(accept(&listener, &limiter))
        .await
    {
        match accepted {
            Ok((stream, slot)) => {
                let server = Arc::clone(&server);
                connections.spawn(async move {
                    let work = Box::pin(server.connection(stream, slot.peer()));
                    if slot.until_evicted(work).await.is_none() {
                        tracing::debug!("evicted a connection");
                    }
                });
            }
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                // A free file descriptor may be all that is missing.
                limiter.evict();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Raises the process's limit of open files to `count` connections plus 512. Returns
/// the number of connections that the limit allows.
#[cfg(unix)]
pub fn raise_connection_limit(count: usize) -> io::Result<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    /// Open files reserved for everything but connections.
    const RESERVED_FILES: u64 = 512;
    /// Minimum number of connections, whatever the limit of open files is.
    const MIN_CONNECTIONS: usize = 64;

    let wanted = u64::try_from(count)
        .unwrap_or(u64::MAX)
        .saturating_add(RESERVED_FILES);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(count);
    }
    let most = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(most),
            maximum: limit.maximum,
        },
    )?;
    Ok(usize::try_from(most.saturating_sub(RESERVED_FILES))
        .unwrap_or(count)
        .max(MIN_CONNECTIONS))
}

/// Services run on Linux. The command-line tool, which shares this crate, runs on Windows too.
#[cfg(not(unix))]
pub fn raise_connection_limit(count: usize) -> io::Result<usize> {
    Ok(count)
}

/// Accepts a connection and acquires its slot. Meanwhile one more than the limit may be open.
async fn accept(
    listener: &TcpListener,
    limiter: &ConnectionLimiter,
) -> io::Result<(TcpStream, Slot)> {
    let (stream, peer): (TcpStream, SocketAddr) = listener.accept().await?;
    // Otherwise the kernel holds the second part of a response until the first is acknowledged,
    // which takes up to 40 ms. It fails if the connection has already ended; the next read says so.
    let _ = stream.set_nodelay(true);
    Ok((stream, limiter.acquire(peer.ip()).await?))
}

/// Whether the error concerns only the connection that was just accepted.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

fn with_limits(router: Router, limits: Limits) -> Router {
    let within = move |request: Request, next: Next| async move {
        match timeout(limits.request_timeout, next.run(request)).await {
            Ok(response) => response,
            Err(_) => (StatusCode::GATEWAY_TIMEOUT, "no answer in time\n").into_response(),
        }
    };
    router
        .layer(from_fn(within))
        .layer(DefaultBodyLimit::max(limits.body_bytes))
}

struct Server {
    router: Router,
    tls: Option<CurrentServerTls>,
    limits: Limits,
    shutdown: CancellationToken,
}

impl Server {
    async fn connection(&self, stream: TcpStream, peer: Peer) {
        let Some(tls) = &self.tls else {
            return self.requests(stream, Protocol::Http1, None, peer).await;
        };
        let handshake = TlsAcceptor::from(tls()).accept(stream);
        match timeout(self.limits.header_timeout, handshake).await {
            Ok(Ok(stream)) => {
                let tls = &stream.get_ref().1;
                let protocol = match tls.alpn_protocol() {
                    Some(b"h2") => Protocol::Http2,
                    _ => Protocol::Http1,
                };
                let certificates = PeerCertificates::of(tls);
                self.requests(stream, protocol, certificates, peer).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake took too long"),
        }
    }

    async fn requests<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        &self,
        stream: S,
        protocol: Protocol,
        certificates: Option<PeerCertificates>,
        peer: Peer,
    ) {
        let http = self.http(protocol);
        let state = Arc::new(ConnectionState::default());
        let recorded = Arc::clone(&state);
        let service = self
            .router
            .clone()
            .map_request(move |mut request: axum::http::Request<_>| {
                recorded.has_request.store(true, Ordering::Relaxed);
                peer.record_request();
                request.extensions_mut().insert(peer.clone());
                if let Some(certificates) = &certificates {
                    request.extensions_mut().insert(certificates.clone());
                }
                request.map(Body::new)
            })
            .map_response({
                let state = Arc::clone(&state);
                move |response| state.mark(response, protocol)
            });
        let mut connection =
            pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
        let begun = async {
            tokio::time::sleep(self.limits.header_timeout).await;
            if state.has_request.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        let (mut begun, mut age) = (
            pin!(begun),
            pin!(tokio::time::sleep(self.limits.connection_age)),
        );
        let limits = self.limits;
        let ended = tokio::select! {
            ended = connection.as_mut() => Ok(ended),
            () = begun.as_mut() => return tracing::debug!("closing a connection without a request"),
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                timeout(limits.request_timeout + CLOSE_TIMEOUT, connection).await
            }
            () = age.as_mut() => {
                state.is_expired.store(true, Ordering::Relaxed);
                if let Protocol::Http2 = protocol {
                    connection.as_mut().graceful_shutdown();
                }
                let last = limits.idle_timeout + limits.request_timeout + CLOSE_TIMEOUT;
                tokio::select! {
                    ended = timeout(last, connection.as_mut()) => ended,
                    () = self.shutdown.cancelled() => {
                        connection.as_mut().graceful_shutdown();
                        timeout(limits.request_timeout + CLOSE_TIMEOUT, connection).await
                    }
                }
            }
        };
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(error = %error, "connection failed"),
            Err(_) => tracing::debug!("connection did not close in time"),
        }
    }

    /// Configures the negotiated protocol. Detecting it would wait for bytes without a time limit.
    fn http(&self, protocol: Protocol) -> auto::Builder<TokioExecutor> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        let header_bytes = self.limits.headers.saturating_mul(BYTES_PER_HEADER);
        builder
            .http1()
            .timer(TokioTimer::new())
            .max_headers(self.limits.headers)
            // The default is 400 KiB, of each connection that never ends its headers.
            .max_buf_size(header_bytes.max(SMALLEST_BUFFER))
            .header_read_timeout(self.limits.idle_timeout.max(self.limits.header_timeout));
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.streams)
            .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(self.limits.header_timeout)
            .keep_alive_timeout(self.limits.header_timeout);
        match protocol {
            Protocol::Http1 => builder.http1_only(),
            Protocol::Http2 => builder.http2_only(),
        }
    }
}

#[derive(Clone, Copy)]
enum Protocol {
    Http1,
    Http2,
}

#[derive(Default)]
struct ConnectionState {
    has_request: AtomicBool,
    is_expired: AtomicBool,
}

impl ConnectionState {
    /// Marks the response of an expired connection as its last one. Closing an idle connection
    /// instead could meet a request on its way.
    fn mark(&self, mut response: Response, protocol: Protocol) -> Response {
        if self.is_expired.load(Ordering::Relaxed) && matches!(protocol, Protocol::Http1) {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

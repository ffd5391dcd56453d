//! Serves a router on a bound port, over TLS or not, with a limit on everything a client can hold on to.

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
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::tls::{CurrentServerTls, PeerCertificates};

/// What one server gives its clients at most.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Open connections; further ones wait in the kernel's queue.
    pub connections: usize,
    /// Concurrent HTTP/2 streams of one connection.
    pub streams: u32,
    /// For the TLS handshake, and again until a connection's first request.
    pub header_timeout: Duration,
    /// For the headers of each further HTTP/1 request, from the answer before. A client that closes its idle connections
    /// itself must do so earlier: it cannot know whether a request that meets a closing connection was read.
    pub idle_timeout: Duration,
    /// For the answer to one request, including reading its body.
    pub request_timeout: Duration,
    /// Of one connection. After it the next answer is the last one; soon after that even a client that never reads has lost it.
    pub connection_age: Duration,
    /// Of a request body, where a handler extracts it.
    pub body_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            streams: 100,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            connection_age: Duration::from_mins(10),
            body_bytes: 1 << 20,
        }
    }
}

/// How long a connection that was asked to close may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after the system refused to accept, which is mostly for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown`, then lets requests that have begun finish. Returns when the last connection is closed.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<CurrentServerTls>,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let server = Arc::new(Server { router: bounded(router, limits), tls, limits, shutdown: shutdown.clone() });
    let free = Arc::new(Semaphore::new(limits.connections));
    let connections = TaskTracker::new();
    // The loop ends when shutdown is requested: then `next` is dropped between two accepts.
    while let Some(accepted) = shutdown.run_until_cancelled(next(&listener, &free)).await {
        match accepted {
            Ok((stream, permit)) => {
                let server = Arc::clone(&server);
                connections.spawn(async move {
                    server.connection(stream).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Asks the system to let the process have so many connections, besides what else it has open. Where less is allowed, the process
/// has what is allowed.
pub fn want_connections(count: usize) -> io::Result<()> {
    let wanted = u64::try_from(count).unwrap_or(u64::MAX).saturating_add(OTHER_FILES);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let most = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum })?)
}

/// Files that a program has open besides the connections of one server.
const OTHER_FILES: u64 = 512;

async fn next(listener: &TcpListener, free: &Arc<Semaphore>) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(free).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _peer): (_, SocketAddr) = listener.accept().await?;
    Ok((stream, permit))
}

fn bounded(router: Router, limits: Limits) -> Router {
    let within = move |request: Request, next: Next| async move {
        match timeout(limits.request_timeout, next.run(request)).await {
            Ok(response) => response,
            Err(_) => (StatusCode::GATEWAY_TIMEOUT, "no answer in time\n").into_response(),
        }
    };
    router.layer(from_fn(within)).layer(DefaultBodyLimit::max(limits.body_bytes))
}

struct Server {
    router: Router,
    tls: Option<CurrentServerTls>,
    limits: Limits,
    shutdown: CancellationToken,
}

impl Server {
    async fn connection(&self, stream: TcpStream) {
        let Some(tls) = &self.tls else { return self.requests(stream, Protocol::Http1, None).await };
        let handshake = TlsAcceptor::from(tls()).accept(stream);
        match timeout(self.limits.header_timeout, handshake).await {
            Ok(Ok(stream)) => {
                let tls = &stream.get_ref().1;
                let http2 = tls.alpn_protocol() == Some(b"h2");
                let peer = PeerCertificates::of(tls);
                self.requests(stream, if http2 { Protocol::Http2 } else { Protocol::Http1 }, peer).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake took too long"),
        }
    }

    async fn requests<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        &self,
        stream: S,
        protocol: Protocol,
        peer: Option<PeerCertificates>,
    ) {
        let http = self.http(protocol);
        let standing = Arc::new(Standing::default());
        let noted = Arc::clone(&standing);
        let service = self
            .router
            .clone()
            .map_request(move |mut request: axum::http::Request<_>| {
                noted.asked.store(true, Ordering::Relaxed);
                if let Some(peer) = &peer {
                    request.extensions_mut().insert(peer.clone());
                }
                request.map(Body::new)
            })
            .map_response({
                let standing = Arc::clone(&standing);
                move |response| standing.mark(response, protocol)
            });
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
        let begun = async {
            tokio::time::sleep(self.limits.header_timeout).await;
            if standing.asked.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        let (mut begun, mut age) = (pin!(begun), pin!(tokio::time::sleep(self.limits.connection_age)));
        let limits = self.limits;
        let ended = tokio::select! {
            ended = connection.as_mut() => Ok(ended),
            () = begun.as_mut() => return tracing::debug!("a connection without a request is closed"),
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                timeout(limits.request_timeout + CLOSE_TIMEOUT, connection).await
            }
            () = age.as_mut() => {
                standing.is_old.store(true, Ordering::Relaxed);
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

    /// The protocol is known beforehand. Detecting it from the first bytes would wait for them without a limit.
    fn http(&self, protocol: Protocol) -> auto::Builder<TokioExecutor> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.idle_timeout.max(self.limits.header_timeout));
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.streams)
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

/// What is known of one connection.
#[derive(Default)]
struct Standing {
    /// A request has come.
    asked: AtomicBool,
    /// Its time is over.
    is_old: AtomicBool,
}

impl Standing {
    /// Says with the answer that it is the last one. Closing an idle connection instead could meet a request on its way.
    fn mark(&self, mut response: Response, protocol: Protocol) -> Response {
        if self.is_old.load(Ordering::Relaxed) && matches!(protocol, Protocol::Http1) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::mpsc;
    use tokio::task::JoinHandle;

    use super::*;

    struct Running {
        address: SocketAddr,
        shutdown: CancellationToken,
        server: JoinHandle<()>,
    }

    impl Running {
        async fn start(router: Router, limits: Limits) -> Self {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let shutdown = CancellationToken::new();
            let server = tokio::spawn(serve(listener, router, None, limits, shutdown.clone()));
            Self { address, shutdown, server }
        }

        async fn send(&self, text: &str) -> TcpStream {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(text.as_bytes()).await.unwrap();
            stream
        }
    }

    const REQUEST: &str = "GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";

    async fn answer(mut stream: TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    fn limits() -> Limits {
        let short = Duration::from_millis(300);
        Limits { header_timeout: short, idle_timeout: short, ..Limits::default() }
    }

    fn hello() -> Router {
        Router::new().route("/", get(|| async { "hello" }))
    }

    #[tokio::test]
    async fn a_client_that_dawdles_over_its_headers_is_shown_out() {
        let running = Running::start(hello(), Limits { connections: 1, ..limits() }).await;
        for beginning in ["", "GET / HT", "GET / HTTP/1.1\r\nhost: te"] {
            let slow = running.send(beginning).await;
            let waiting = running.send(REQUEST).await;
            assert!(!answer(slow).await.contains("hello"), "{beginning:?}");
            assert!(answer(waiting).await.ends_with("hello"), "after {beginning:?}");
        }
    }

    #[tokio::test]
    async fn an_idle_connection_does_not_stay() {
        let running = Running::start(hello(), limits()).await;
        let idle = running.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
        assert!(answer(idle).await.ends_with("hello"), "reading to the end means that the server closed");
    }

    #[tokio::test]
    async fn a_handler_that_takes_too_long_is_answered_for() {
        let stuck = Router::new().route("/", get(|| async { std::future::pending::<&str>().await }));
        let running = Running::start(stuck, Limits { request_timeout: Duration::from_millis(50), ..limits() }).await;
        let text = answer(running.send(REQUEST).await).await;
        assert!(text.starts_with("HTTP/1.1 504"), "{text}");
    }

    #[tokio::test]
    async fn an_idle_connection_may_stay_longer_than_one_that_never_asked() {
        let patient = Limits { idle_timeout: Duration::from_mins(5), ..limits() };
        let running = Running::start(hello(), patient).await;
        let mut kept = running.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
        for beginning in ["", "GET / HTTP/1.1\r\nhost: te"] {
            assert!(!answer(running.send(beginning).await).await.contains("hello"), "{beginning:?}");
        }
        kept.write_all(REQUEST.as_bytes()).await.unwrap();
        assert_eq!(answer(kept).await.matches("hello").count(), 2);
    }

    #[tokio::test]
    async fn the_first_answer_on_an_old_connection_is_its_last() {
        let age = Duration::from_millis(50);
        let ages = Limits { connection_age: age, idle_timeout: Duration::from_mins(5), ..limits() };
        let running = Running::start(hello(), ages).await;
        let mut kept = running.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
        let mut text = Vec::new();
        loop {
            let mut bytes = [0; 1024];
            // A question that crosses the server's goodbye may be answered with a reset.
            match kept.read(&mut bytes).await {
                Ok(0) | Err(_) => break,
                Ok(read) => text.extend_from_slice(&bytes[..read]),
            }
            if kept.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.is_err() {
                break;
            }
        }
        assert!(String::from_utf8(text).unwrap().contains("connection: close"));
    }

    #[tokio::test]
    async fn shutdown_lets_a_request_finish_and_takes_no_more() {
        let (started, mut starts) = mpsc::channel(1);
        let (finish, finished) = tokio::sync::watch::channel(false);
        let handler = move || {
            let (started, mut finished) = (started.clone(), finished.clone());
            async move {
                started.send(()).await.unwrap();
                finished.wait_for(|finished| *finished).await.unwrap();
                "finished"
            }
        };
        let running = Running::start(Router::new().route("/", get(handler)), Limits::default()).await;
        let stream = running.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
        starts.recv().await.unwrap();
        running.shutdown.cancel();
        while TcpStream::connect(running.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        finish.send(true).unwrap();
        assert!(answer(stream).await.ends_with("finished"));
        running.server.await.unwrap();
    }
}

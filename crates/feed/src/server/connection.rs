//! Accepts connections: the TLS handshake with limits on number and time, and the identity of the
//! client.
//!
//! Any peer can start a handshake, but only clients with a certificate complete it. So idle
//! connections take no connection slots from clients; above the limit the oldest handshake is
//! dropped.

mod handshakes;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use futures::stream::poll_fn;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

use super::allowed_clients::AllowedClients;
use super::{CurrentTls, ServerLimits};
use crate::metrics::{Metrics, Refusal};
use handshakes::Handshakes;

/// Pause after a failed accept, mostly caused by a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Number of established connections waiting to be served.
const MAX_READY: usize = 16;

/// Identity of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    /// Whether its certificate names an allowed client.
    pub(super) is_allowed: bool,
    /// Whether it names a client that may report.
    pub(super) may_report: bool,
}

/// A connection after its handshake.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TlsStream<TcpStream>,
    peer: Peer,
    /// Permit of the limit on open connections.
    _permit: OwnedSemaphorePermit,
}

/// State of the accept loop.
#[derive(Clone)]
pub(super) struct Acceptor {
    pub(super) tls: CurrentTls,
    pub(super) allowed: AllowedClients,
    pub(super) reporting: AllowedClients,
    pub(super) limits: ServerLimits,
    pub(super) metrics: Metrics,
}

impl Acceptor {
    /// Accepts until `shutdown`. Handshakes do not wait for each other.
    pub(super) fn accept(
        self,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> impl Stream<Item = io::Result<Connection>> {
        let (ready, mut connections) = mpsc::channel(MAX_READY);
        tokio::spawn(shutdown.run_until_cancelled_owned(self.run(listener, ready)));
        poll_fn(move |context| {
            connections
                .poll_recv(context)
                .map(|connection| connection.map(Ok))
        })
    }

    async fn run(self, listener: TcpListener, ready: mpsc::Sender<Connection>) {
        let free = Arc::new(Semaphore::new(self.limits.connections));
        let mut handshakes = Handshakes::new(self.limits.connections);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = ready.closed() => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    let (acceptor, ready, free) = (self.clone(), ready.clone(), Arc::clone(&free));
                    handshakes.begin(async move {
                        let Some((stream, peer)) = acceptor.handshake(stream).await else {
                            return;
                        };
                        let Ok(permit) = free.acquire_owned().await else {
                            return;
                        };
                        // After shutdown the receiver is gone.
                        let _ = ready
                            .send(Connection {
                                stream,
                                peer,
                                _permit: permit,
                            })
                            .await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    // Frees a file descriptor in case the limit was the cause.
                    handshakes.end_oldest();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn handshake(&self, stream: TcpStream) -> Option<(TlsStream<TcpStream>, Peer)> {
        // Messages are small and urgent.
        let _ = stream.set_nodelay(true);
        let handshake = TlsAcceptor::from((self.tls)()).accept(stream);
        match timeout(self.limits.handshake_timeout, handshake).await {
            Ok(Ok(stream)) => {
                let certificate = stream
                    .get_ref()
                    .1
                    .peer_certificates()
                    .and_then(<[_]>::first);
                let is_named = |names: &AllowedClients| {
                    certificate.is_some_and(|certificate| names.include(certificate))
                };
                let peer = Peer {
                    is_allowed: is_named(&self.allowed),
                    may_report: is_named(&self.reporting),
                };
                Some((stream, peer))
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "TLS handshake failed");
                self.metrics.refused(Refusal::Handshake);
                None
            }
            Err(_) => {
                self.metrics.refused(Refusal::Handshake);
                None
            }
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

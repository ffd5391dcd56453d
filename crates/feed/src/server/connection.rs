//! Accepts connections: TLS handshakes with limits on number and time, and identities of clients.
//!
//! Any peer can start a handshake, but only clients with a certificate complete it. So idle
//! connections take no connection slots from clients; above the limit the oldest handshake is
//! dropped.

use std::collections::VecDeque;
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
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

use super::{AllowedClients, Server};
use crate::metrics::Refusal;

/// Pause after a failed accept, mostly caused by a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const MAX_READY: usize = 16;

/// Identity of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
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

/// Accepts until `shutdown`. Handshakes do not wait for each other.
pub(super) fn accept(
    server: Arc<Server>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> impl Stream<Item = io::Result<Connection>> {
    let (ready, mut connections) = mpsc::channel(MAX_READY);
    tokio::spawn(shutdown.run_until_cancelled_owned(run(server, listener, ready)));
    poll_fn(move |context| {
        connections
            .poll_recv(context)
            .map(|connection| connection.map(Ok))
    })
}

async fn run(server: Arc<Server>, listener: TcpListener, ready: mpsc::Sender<Connection>) {
    let free = Arc::new(Semaphore::new(server.limits.connections));
    let mut handshakes = Handshakes::new(server.limits.connections);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ready.closed() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let (server, ready) = (Arc::clone(&server), ready.clone());
                let free = Arc::clone(&free);
                handshakes.begin(async move {
                    let Some((stream, peer)) = handshake(&server, stream).await else {
                        return;
                    };
                    let Ok(permit) = free.acquire_owned().await else {
                        return;
                    };
                    let connection = Connection {
                        stream,
                        peer,
                        _permit: permit,
                    };
                    // After shutdown the receiver is gone.
                    let _ = ready.send(connection).await;
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

async fn handshake(server: &Server, stream: TcpStream) -> Option<(TlsStream<TcpStream>, Peer)> {
    // Messages are small and urgent.
    let _ = stream.set_nodelay(true);
    let handshake = TlsAcceptor::from((server.tls)()).accept(stream);
    match timeout(server.limits.handshake_timeout, handshake).await {
        Ok(Ok(stream)) => {
            let (_, tls) = stream.get_ref();
            let certificate = tls.peer_certificates().and_then(<[_]>::first);
            let is_named = |names: &AllowedClients| {
                certificate.is_some_and(|certificate| names.include(certificate))
            };
            let peer = Peer {
                is_allowed: is_named(&server.allowed),
                may_report: is_named(&server.reporting),
            };
            return Some((stream, peer));
        }
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => {}
    }
    server.metrics.refused(Refusal::Handshake);
    None
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

/// Handshakes in progress, oldest first. May include finished ones.
struct Handshakes {
    most: usize,
    under_way: VecDeque<AbortHandle>,
}

impl Handshakes {
    fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            under_way: VecDeque::new(),
        }
    }

    fn begin(&mut self, handshake: impl Future<Output = ()> + Send + 'static) {
        if self.under_way.len() >= self.most {
            self.under_way.retain(|handshake| !handshake.is_finished());
        }
        if self.under_way.len() >= self.most {
            self.end_oldest();
        }
        self.under_way
            .push_back(tokio::spawn(handshake).abort_handle());
    }

    fn end_oldest(&mut self) {
        if let Some(oldest) = self.under_way.pop_front() {
            oldest.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    /// Starts a handshake that lasts until the returned sender is dropped or used.
    fn begin(handshakes: &mut Handshakes) -> oneshot::Sender<()> {
        let (end, ended) = oneshot::channel();
        handshakes.begin(async move { drop(ended.await) });
        end
    }

    #[tokio::test]
    async fn the_oldest_ends_when_there_are_too_many() {
        let mut handshakes = Handshakes::new(2);
        let (mut first, second) = (begin(&mut handshakes), begin(&mut handshakes));
        let third = begin(&mut handshakes);
        first.closed().await;
        assert!(!second.is_closed() && !third.is_closed());
    }

    #[tokio::test]
    async fn those_that_have_ended_are_none() {
        let mut handshakes = Handshakes::new(2);
        let first = begin(&mut handshakes);
        for _ in 0..10 {
            drop(begin(&mut handshakes));
            while !handshakes.under_way.iter().any(AbortHandle::is_finished) {
                tokio::task::yield_now().await;
            }
        }
        assert!(!first.is_closed());
        assert!(handshakes.under_way.len() <= 2);
    }
}

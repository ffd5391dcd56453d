//! The proxy to which the API server's egress selector sends everything for pods and Services: HTTP CONNECT over a unix
//! socket. Each request is looked up anew.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode};
use hyper::{body::Incoming, service::service_fn, upgrade};
use hyper_util::rt::{TokioIo, TokioTimer};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector;
use tokio::{
    io::copy_bidirectional,
    net::{TcpStream, UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::timeout,
};

use super::{registry::Registry, resolve::Target};

/// Connections at one time; more wait.
const CONNECTIONS: usize = 1024;

/// For the request, and again for the connection to the pod.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the proxy looks addresses up in.
#[derive(Clone)]
pub(super) struct Proxy {
    /// All Services of the cluster.
    pub(super) services: reflector::Store<Service>,
    /// All hosted pods.
    pub(super) registry: Arc<Registry>,
}

/// Opens the socket. A socket left behind by a sandbox that was killed is replaced.
pub(super) fn listen(socket: &Path) -> std::io::Result<UnixListener> {
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(socket)
}

impl Proxy {
    /// Serves until dropped.
    pub(super) async fn serve(self, listener: UnixListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut tunnels = JoinSet::new();
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => _ = tunnels.spawn(self.clone().tunnel(stream, place)),
                    // Out of file descriptors, most likely: let others finish.
                    Err(error) => {
                        tracing::warn!(%error, "could not accept a connection of the API server");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                Some(_) = tunnels.join_next() => {}
            }
        }
    }

    async fn tunnel(self, stream: UnixStream, place: OwnedSemaphorePermit) {
        let answer = service_fn(|request| self.answer(request));
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .serve_connection(TokioIo::new(stream), answer)
            .with_upgrades();
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection of the API server ended early");
        }
        drop(place);
    }

    async fn answer(&self, mut request: Request<Incoming>) -> Result<Response<String>, http::Error> {
        if request.method() != Method::CONNECT {
            return Response::builder()
                .status(StatusCode::METHOD_NOT_ALLOWED)
                .body("only CONNECT is served\n".to_owned());
        }
        let authority = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        match self.dial(&authority).await {
            Ok(stream) => {
                tokio::spawn(carry(upgrade::on(&mut request), stream));
                Response::builder().status(StatusCode::OK).body(String::new())
            }
            Err(error) => {
                tracing::debug!(authority, error, "refused");
                Response::builder().status(StatusCode::BAD_GATEWAY).body(format!("{error}\n"))
            }
        }
    }

    async fn dial(&self, authority: &str) -> Result<TcpStream, String> {
        let target = Target::parse(authority).map_err(|error| error.to_string())?;
        let services = self.services.state();
        let addresses =
            target.resolve(services.iter().map(AsRef::as_ref), &self.registry).map_err(|error| error.to_string())?;
        let mut problem = String::new();
        for address in in_random_order(addresses) {
            match timeout(PATIENCE, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => problem = format!("dial {address}: {error}"),
                Err(_) => problem = format!("dial {address}: no answer within {} s", PATIENCE.as_secs()),
            }
        }
        Err(problem)
    }
}

/// Spreads requests over the pods of a Service: starts somewhere, then goes round.
fn in_random_order(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let start = jiff::Timestamp::now().subsec_nanosecond().unsigned_abs() as usize;
    if !addresses.is_empty() {
        let start = start / 1000 % addresses.len();
        addresses.rotate_left(start);
    }
    addresses
}

async fn carry(upgrade: upgrade::OnUpgrade, mut stream: TcpStream) {
    let Ok(upgraded) = upgrade.await else { return };
    // Either side closes in its own way; there is nobody to tell.
    let _closed = copy_bidirectional(&mut TokioIo::new(upgraded), &mut stream).await;
}

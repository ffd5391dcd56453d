//! The proxy of the API server's egress selector for pods and Services: HTTP CONNECT over a unix
//! socket. Each request is resolved when it comes.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::{self, OnUpgrade};
use hyper_util::rt::{TokioIo, TokioTimer};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::destination::Target;
use super::pod_table::PodTable;

/// Connections at one time; further ones wait.
const CONNECTIONS: usize = 1024;

/// Limit for the request, and again for the connection to the pod.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Sources of addresses.
#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) services: reflector::Store<Service>,
    pub(super) registry: Arc<PodTable>,
    /// Whether the addresses of other pods and Services lead to a real node.
    pub(super) has_routes: bool,
}

/// Opens the socket; replaces that of a sandbox that was killed.
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
        let mut tunnels = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept(), if tunnels.len() < CONNECTIONS => match accepted {
                    Ok((stream, _)) => _ = tunnels.spawn(self.clone().tunnel(stream)),
                    // Probably out of file descriptors: other connections may end.
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection of the API server");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                Some(_) = tunnels.join_next() => {}
            }
        }
    }

    /// Handles one connection of the API server: the request, then bytes in both directions.
    async fn tunnel(self, stream: UnixStream) {
        let (dialled, mut dialled_to) = mpsc::channel(1);
        let answer = service_fn(|request| self.answer(request, &dialled));
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(TIMEOUT)
            .serve_connection(TokioIo::new(stream), answer)
            .with_upgrades();
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection of the API server ended early");
        }
        if let Ok((upgrade, stream)) = dialled_to.try_recv() {
            carry(upgrade, stream).await;
        }
    }

    async fn answer(
        &self,
        mut request: Request<Incoming>,
        dialled: &mpsc::Sender<(OnUpgrade, TcpStream)>,
    ) -> Result<Response<String>, http::Error> {
        if request.method() != Method::CONNECT {
            return Response::builder()
                .status(StatusCode::METHOD_NOT_ALLOWED)
                .body("only CONNECT is served\n".to_owned());
        }
        let authority = request
            .uri()
            .authority()
            .map(ToString::to_string)
            .unwrap_or_default();
        let outcome = self.dial(&authority).await.and_then(|stream| {
            let tunnel = (upgrade::on(&mut request), stream);
            dialled
                .try_send(tunnel)
                .map_err(|_| "this connection carries a tunnel already".to_owned())
        });
        match outcome {
            Ok(()) => Response::builder()
                .status(StatusCode::OK)
                .body(String::new()),
            Err(error) => {
                tracing::debug!(authority, error, "refusing a connection of the API server");
                Response::builder()
                    .status(StatusCode::BAD_GATEWAY)
                    .body(format!("{error}\n"))
            }
        }
    }

    async fn dial(&self, authority: &str) -> Result<TcpStream, String> {
        let target = Target::parse(authority)?;
        let services = self.services.state();
        let hosted = target.resolve(services.iter().map(AsRef::as_ref), &self.registry);
        let routed = || target.address().filter(|_| self.has_routes);
        let addresses =
            hosted.or_else(|error| routed().map(|address| vec![address]).ok_or(error))?;
        let mut problem = String::new();
        for address in in_random_order(addresses) {
            match timeout(TIMEOUT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Nagle's algorithm would delay the small packets of a request.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => problem = format!("dial {address}: {error}"),
                Err(_) => {
                    problem = format!("dial {address}: no answer within {} s", TIMEOUT.as_secs());
                }
            }
        }
        Err(problem)
    }
}

/// Spreads requests over the pods of a Service: rotates the addresses by a pseudo-random number.
fn in_random_order(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let start = jiff::Timestamp::now().subsec_nanosecond().unsigned_abs() as usize;
    if !addresses.is_empty() {
        let start = start / 1000 % addresses.len();
        addresses.rotate_left(start);
    }
    addresses
}

async fn carry(upgrade: OnUpgrade, mut stream: TcpStream) {
    let Ok(upgraded) = upgrade.await else { return };
    // Either side may close in its own way, and both are gone then.
    let _closed = copy_bidirectional(&mut TokioIo::new(upgraded), &mut stream).await;
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::kubelet::address::Pool;

    /// A proxy on its own socket, with one Service: `here.demo.svc`, which is this machine.
    async fn proxy(folder: &Path) -> UnixStream {
        let (services, mut writer) = reflector::store();
        let service = json!({
            "metadata": {"name": "here", "namespace": "demo"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        writer.apply_watcher_event(&Event::Apply(serde_json::from_value(service).unwrap()));
        let socket = folder.join("proxy");
        std::fs::write(&socket, "left behind").unwrap();
        let listener = listen(&socket).unwrap();
        tokio::spawn(
            Proxy {
                services,
                has_routes: false,
                registry: Arc::new(PodTable::new(Pool::new(130))),
            }
            .serve(listener),
        );
        UnixStream::connect(&socket).await.unwrap()
    }

    async fn connect(stream: &mut UnixStream, request: &str) -> String {
        stream
            .write_all(format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = vec![0; 1024];
        let length = stream.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..length])
            .lines()
            .next()
            .unwrap()
            .to_owned()
    }

    #[tokio::test]
    async fn bytes_go_both_ways_through_a_tunnel() {
        let folder = tempfile::tempdir().unwrap();
        let mut stream = proxy(folder.path()).await;
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = server.accept().await.unwrap();
            let (mut read, mut write) = stream.split();
            tokio::io::copy(&mut read, &mut write).await.unwrap();
        });
        assert_eq!(
            connect(&mut stream, &format!("CONNECT here.demo.svc:{port}")).await,
            "HTTP/1.1 200 OK"
        );
        stream.write_all(b"there and back").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut echo = String::new();
        stream.read_to_string(&mut echo).await.unwrap();
        assert_eq!(echo, "there and back");
    }

    #[tokio::test]
    async fn what_cannot_be_reached_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut stream = proxy(folder.path()).await;
        assert_eq!(
            connect(&mut stream, "CONNECT absent.demo.svc:443").await,
            "HTTP/1.1 502 Bad Gateway"
        );
        let mut stream = UnixStream::connect(folder.path().join("proxy"))
            .await
            .unwrap();
        assert_eq!(
            connect(&mut stream, "GET /").await,
            "HTTP/1.1 405 Method Not Allowed"
        );
    }
}

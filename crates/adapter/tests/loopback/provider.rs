//! Another provider of external metrics. It returns configured results, hangs, dies and comes back.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use serde_json::json;
use serving::http_server::{Limits, serve};
use serving::tls::ServingTls;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::ca::Ca;
use crate::fixture::tls;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Returns(i64),
    /// Returns this status code.
    Refuses(u16),
    Hangs,
    /// Closes connections at once.
    IsDead,
}

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) uri: String,
    pub(crate) headers: HeaderMap,
}

struct Known {
    does: watch::Sender<Behaviour>,
    asked: Mutex<Vec<Asked>>,
}

/// A running provider. It ends when dropped.
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    pub(crate) authority: Ca,
    known: Arc<Known>,
    door: Door,
    _folder: TempDir,
}

impl Provider {
    pub(crate) async fn start(does: Behaviour) -> Self {
        let known = Arc::new(Known {
            does: watch::Sender::new(does),
            asked: Mutex::default(),
        });
        let authority = Ca::new("another provider");
        let folder = tempfile::tempdir().unwrap();
        let tls = tls(&folder, &authority.server("localhost"), None).await;
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&known));
        let door = Door::before(router, &tls, does != Behaviour::IsDead).await;
        Self {
            address: door.address,
            authority,
            known,
            door,
            _folder: folder,
        }
    }

    pub(crate) fn set_behaviour(&self, does: Behaviour) {
        self.door.is_open.send_replace(does != Behaviour::IsDead);
        self.known.does.send_replace(does);
    }

    /// Takes the requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<Asked> {
        std::mem::take(&mut self.known.asked.lock().unwrap())
    }

    /// Takes the number of connections since the last call.
    pub(crate) fn connections(&self) -> usize {
        self.door.connections.swap(0, Ordering::Relaxed)
    }
}

async fn answer(State(known): State<Arc<Known>>, request: Request) -> Response {
    let asked = Asked {
        uri: request.uri().to_string(),
        headers: request.headers().clone(),
    };
    known.asked.lock().unwrap().push(asked);
    let does = *known
        .does
        .subscribe()
        .wait_for(|does| *does != Behaviour::Hangs)
        .await
        .unwrap();
    match does {
        Behaviour::Returns(value) => Json(json!({
            "kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1",
            "metadata": {}, "items": [{
                "metricName": "queue", "metricLabels": {"of": "another"},
                "timestamp": "2026-01-01T00:00:00Z", "value": value.to_string(),
            }],
        }))
        .into_response(),
        Behaviour::Refuses(code) => {
            let status = json!({"kind": "Status", "apiVersion": "v1", "code": code, "message": "none of that"});
            (StatusCode::from_u16(code).unwrap(), Json(status)).into_response()
        }
        Behaviour::Hangs | Behaviour::IsDead => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// A proxy in front of a server, which ends when dropped.
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    /// Whether connections are accepted. Open ones are closed if not.
    pub(crate) is_open: watch::Sender<bool>,
    /// The number of attempts.
    connections: Arc<AtomicUsize>,
    tasks: Vec<AbortHandle>,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Door {
    pub(crate) async fn before(router: Router, tls: &ServingTls, is_open: bool) -> Self {
        let inner = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let within = inner.local_addr().unwrap();
        let server = serve(
            inner,
            router,
            Some(tls.current()),
            Limits::default(),
            CancellationToken::new(),
        );
        let outer = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = outer.local_addr().unwrap();
        let (is_open, connections) = (watch::Sender::new(is_open), Arc::default());
        let letting_in = let_in(outer, within, is_open.clone(), Arc::clone(&connections));
        let tasks = vec![
            tokio::spawn(server).abort_handle(),
            tokio::spawn(letting_in).abort_handle(),
        ];
        Self {
            address,
            is_open,
            connections,
            tasks,
        }
    }
}

async fn let_in(
    outer: TcpListener,
    within: SocketAddr,
    is_open: watch::Sender<bool>,
    connections: Arc<AtomicUsize>,
) {
    loop {
        let (mut stream, _) = outer.accept().await.unwrap();
        connections.fetch_add(1, Ordering::Relaxed);
        let mut is_open = is_open.subscribe();
        tokio::spawn(async move {
            if !*is_open.borrow() {
                return;
            }
            let mut server = TcpStream::connect(within).await.unwrap();
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut stream, &mut server) => {}
                _ = is_open.wait_for(|is_open| !is_open) => {}
            }
        });
    }
}

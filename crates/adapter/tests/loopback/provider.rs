//! Another provider of external metrics: answers as it is told, hangs, dies and comes back.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use runtime::serve::{Limits, serve};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::authority::{Authority, Says};
use crate::stage::tls;

/// What it does with a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    /// Answers with this value.
    Says(i64),
    /// Answers with this code.
    Refuses(u16),
    /// Does not answer.
    Hangs,
    /// Is not there: connections are closed at once.
    IsDead,
}

/// A question as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) uri: String,
    pub(crate) headers: HeaderMap,
}

struct Known {
    does: watch::Sender<Does>,
    asked: Mutex<Vec<Asked>>,
    connections: AtomicUsize,
}

/// A running one; it ends when dropped.
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    pub(crate) authority: Authority,
    known: Arc<Known>,
    _folder: TempDir,
    tasks: Vec<AbortHandle>,
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Provider {
    pub(crate) async fn start(does: Does) -> Self {
        let known = Arc::new(Known {
            does: watch::Sender::new(does),
            asked: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let authority = Authority::new("another provider");
        let folder = tempfile::tempdir().unwrap();
        let says = Says { common_name: "localhost", purposes: &[], ..Says::default() };
        let tls = tls(&folder, &authority.issue(&says)).await;
        let inner = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let within = inner.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&known));
        let server = serve(inner, router, Some(tls.current()), Limits::default(), CancellationToken::new());
        let outer = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = outer.local_addr().unwrap();
        let door = tokio::spawn(open_while_alive(outer, within, Arc::clone(&known)));
        let tasks = vec![tokio::spawn(server).abort_handle(), door.abort_handle()];
        Self { address, authority, known, _folder: folder, tasks }
    }

    pub(crate) fn now(&self, does: Does) {
        self.known.does.send_replace(does);
    }

    /// The questions since the last time.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.known.asked.lock().unwrap())
    }

    /// Connections since the last time.
    pub(crate) fn connections(&self) -> usize {
        self.known.connections.swap(0, Ordering::Relaxed)
    }
}

async fn answer(State(known): State<Arc<Known>>, request: Request) -> Response {
    let asked = Asked { uri: request.uri().to_string(), headers: request.headers().clone() };
    known.asked.lock().unwrap().push(asked);
    let does = *known.does.subscribe().wait_for(|does| *does != Does::Hangs).await.unwrap();
    match does {
        Does::Says(value) => {
            let item = json!({
                "metricName": "queue", "metricLabels": {"of": "another"}, "timestamp": "2026-01-01T00:00:00Z",
                "value": value.to_string(),
            });
            let (kind, version) = ("ExternalMetricValueList", "external.metrics.k8s.io/v1beta1");
            Json(json!({"kind": kind, "apiVersion": version, "metadata": {}, "items": [item]})).into_response()
        }
        Does::Refuses(code) => {
            let status = json!({"kind": "Status", "apiVersion": "v1", "code": code, "message": "none of that"});
            (StatusCode::from_u16(code).unwrap(), Json(status)).into_response()
        }
        Does::Hangs | Does::IsDead => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn open_while_alive(outer: TcpListener, within: SocketAddr, known: Arc<Known>) {
    loop {
        let (mut stream, _) = outer.accept().await.unwrap();
        known.connections.fetch_add(1, Ordering::Relaxed);
        let mut does = known.does.subscribe();
        tokio::spawn(async move {
            if *does.borrow() == Does::IsDead {
                return;
            }
            let mut server = TcpStream::connect(within).await.unwrap();
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut stream, &mut server) => {}
                _ = does.wait_for(|does| *does == Does::IsDead) => {}
            }
        });
    }
}

//! Fake of the part of the API server that stores one Lease.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, put};
use http::StatusCode;
use k8s_openapi::api::coordination::v1::Lease;
use tower::ServiceExt as _;

/// One lease; like the real API server it refuses writes to an old version.
#[derive(Clone, Default)]
pub(super) struct Leases(pub(super) Arc<Mutex<Option<Lease>>>);

impl Leases {
    pub(super) fn store(&self, mut lease: Lease) -> Json<Lease> {
        let mut stored = self.0.lock().unwrap();
        let version = stored.as_ref().map_or(0, version) + 1;
        lease.metadata.resource_version = Some(version.to_string());
        *stored = Some(lease.clone());
        Json(lease)
    }

    pub(super) fn holder(&self) -> String {
        self.0
            .lock()
            .unwrap()
            .clone()
            .and_then(|lease| lease.spec?.holder_identity)
            .unwrap_or_default()
    }

    /// A client that fails while `cut` is set, as behind a broken network.
    pub(super) fn client(&self, cut: Arc<AtomicBool>) -> kube::Client {
        let router = axum::Router::new()
            .route(
                "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lease",
                put(replace).get(read),
            )
            .route(
                "/apis/coordination.k8s.io/v1/namespaces/ns/leases",
                get(watch_is_forbidden).post(create),
            )
            .with_state(self.clone());
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (router, cut) = (router.clone(), cut.load(Ordering::SeqCst));
            async move {
                if cut {
                    return Err(std::io::Error::other("network is cut"));
                }
                Ok(router
                    .oneshot(request.map(Body::new))
                    .await
                    .unwrap_or_else(|never| match never {}))
            }
        });
        kube::Client::new(service, "ns")
    }
}

pub(super) fn version(lease: &Lease) -> u64 {
    lease
        .metadata
        .resource_version
        .as_ref()
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

fn refuse(code: StatusCode, reason: &str) -> Response {
    let status = serde_json::json!({"status": "Failure", "message": code.as_str(), "reason": reason, "code": code.as_u16()});
    (code, Json(status)).into_response()
}

async fn read(State(leases): State<Leases>) -> Response {
    let lease = leases.0.lock().unwrap().clone();
    lease.map_or_else(
        || refuse(StatusCode::NOT_FOUND, "NotFound"),
        |lease| Json(lease).into_response(),
    )
}

async fn create(State(leases): State<Leases>, Json(lease): Json<Lease>) -> Response {
    let exists = leases.0.lock().unwrap().is_some();
    if exists {
        refuse(StatusCode::CONFLICT, "Conflict")
    } else {
        leases.store(lease).into_response()
    }
}

async fn replace(State(leases): State<Leases>, Json(lease): Json<Lease>) -> Response {
    let current = leases.0.lock().unwrap().as_ref().map(version);
    if current == Some(version(&lease)) {
        leases.store(lease).into_response()
    } else {
        refuse(StatusCode::CONFLICT, "Conflict")
    }
}

async fn watch_is_forbidden() -> Response {
    refuse(StatusCode::FORBIDDEN, "Forbidden")
}

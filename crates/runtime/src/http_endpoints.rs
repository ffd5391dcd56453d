//! The HTTP endpoints of every program: /metrics, /healthz, /livez, /readyz and /health-check.

use std::path::PathBuf;
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus::{Registry, TextEncoder};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::health::{Activity, Readiness};
use crate::shutdown::Tasks;

#[derive(Debug, Clone)]
pub struct Endpoints {
    pub registry: Registry,
    pub readiness: Readiness,
    /// Activity for /healthz, /livez and /health-check.
    pub activity: Activity,
    /// /readyz fails once this is cancelled.
    pub shutdown: CancellationToken,
}

/// The bound port of `--address` and its routes, for a server.
pub struct EndpointPort {
    pub listener: TcpListener,
    pub router: Router,
    /// `--metrics-cert-dir`; plain HTTP without.
    pub certificate_folder: Option<PathBuf>,
    /// For tasks of the server that end at shutdown.
    pub tasks: Tasks,
    /// Cancelled when the server should stop, which is after the program's work has ended.
    pub shutdown: CancellationToken,
}

impl Endpoints {
    pub fn router(self) -> Router {
        Router::new()
            .route("/metrics", get(metrics))
            .route("/healthz", get(alive))
            .route("/livez", get(alive))
            .route("/health-check", get(health_check))
            .route("/readyz", get(ready))
            .with_state(self)
    }
}

async fn metrics(State(Endpoints { registry, .. }): State<Endpoints>) -> Response {
    match TextEncoder::new().encode_to_string(&registry.gather()) {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("cannot encode metrics: {error}\n"),
        )
            .into_response(),
    }
}

async fn alive(State(Endpoints { activity, .. }): State<Endpoints>) -> Response {
    answer(activity.check(Instant::now()).map(|()| "ok\n"))
}

/// Upstream's liveness and readiness probe: `OK`, or 500 with the time since the last activity.
async fn health_check(State(Endpoints { activity, .. }): State<Endpoints>) -> Response {
    answer(activity.check(Instant::now()).map(|()| "OK"))
}

fn answer(outcome: Result<&'static str, String>) -> Response {
    match outcome {
        Ok(text) => text.into_response(),
        Err(reason) => (StatusCode::INTERNAL_SERVER_ERROR, reason + "\n").into_response(),
    }
}

/// With `?verbose` it lists every condition.
async fn ready(State(endpoints): State<Endpoints>, uri: Uri) -> Response {
    let mut parts = uri.query().unwrap_or_default().split('&');
    let is_verbose = parts.any(|part| part.starts_with("verbose"));
    let mut missing = endpoints.readiness.missing();
    if endpoints.shutdown.is_cancelled() {
        missing.push("shutting down".to_owned());
    }
    let code = if missing.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let text = match (is_verbose, missing.is_empty()) {
        (true, _) => endpoints.readiness.report(),
        (false, true) => "ok\n".to_owned(),
        (false, false) => missing.join("\n") + "\n",
    };
    (code, text).into_response()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt as _;

    use super::*;

    fn endpoints() -> Endpoints {
        Endpoints {
            registry: Registry::new(),
            readiness: Readiness::default(),
            activity: Activity::default(),
            shutdown: CancellationToken::new(),
        }
    }

    async fn check(endpoints: &Endpoints, path: &str, expected: (u16, &str)) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = endpoints.clone().router().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20)
            .await
            .unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert_eq!((code, text.as_str()), expected, "{path}");
    }

    #[tokio::test]
    async fn health_follows_activity() {
        let endpoints = endpoints();
        check(&endpoints, "/health-check", (200, "OK")).await;
        check(&endpoints, "/healthz", (200, "ok\n")).await;

        let long_ago = Instant::now().checked_sub(Duration::from_secs(301));
        let activity = &endpoints.activity;
        activity.expect_every(Duration::from_mins(5), long_ago.unwrap());
        let request = Request::get("/health-check").body(Body::empty()).unwrap();
        let response = endpoints.clone().router().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);

        endpoints.activity.record(Instant::now());
        check(&endpoints, "/livez", (200, "ok\n")).await;
    }

    #[tokio::test]
    async fn readiness_lists_what_is_missing() {
        let endpoints = endpoints();
        let condition = endpoints.readiness.condition("pod watch");
        check(&endpoints, "/readyz", (503, "pod watch: not yet\n")).await;
        condition.ready();
        check(&endpoints, "/readyz", (200, "ok\n")).await;
        check(&endpoints, "/readyz?verbose", (200, "[+]pod watch ok\n")).await;
        endpoints.shutdown.cancel();
        check(&endpoints, "/readyz", (503, "shutting down\n")).await;
    }

    #[tokio::test]
    async fn metrics_are_in_the_text_format() {
        let endpoints = endpoints();
        let counter = prometheus::IntCounter::new("vpa_things_total", "Things.").unwrap();
        let registered = endpoints.registry.register(Box::new(counter.clone()));
        registered.unwrap();
        counter.inc();
        let text = "# HELP vpa_things_total Things.\n# TYPE vpa_things_total counter\nvpa_things_total 1\n";
        check(&endpoints, "/metrics", (200, text)).await;
        check(&endpoints, "/nothing", (404, "")).await;
    }
}

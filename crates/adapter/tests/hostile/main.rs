//! Random requests, built from pieces of valid ones with changed bytes. No request may cause an
//! internal error.
//!
//! `PLIMSOLL_HOSTILE_REQUESTS`: the number of requests (`make fuzz`: a hundred thousand).

mod pieces;

use adapter::metrics::{Metrics, PREFIX};
use adapter::serve::AdapterServer;
use adapter::{Args, PROGRAM};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Response, StatusCode, header};
use delegated_auth::DelegatedAuth;
use prometheus::Registry;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use runtime::http_endpoints::Endpoints;
use runtime::{Activity, Readiness};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use pieces::{Hostile, hostile};

const REQUESTS: usize = 4000;
const LARGEST: usize = 1 << 20;

/// An API server that allows everything, so that requests are handled as far as possible.
fn permissive() -> kube::Client {
    testing::api_server(async |request| {
        let status = json!({"allowed": true, "authenticated": true, "user": {"username": "jane"}});
        let is_token = request.uri().path().contains("tokenreview");
        let (kind, group) = if is_token {
            ("TokenReview", "authentication")
        } else {
            ("SubjectAccessReview", "authorization")
        };
        let version = format!("{group}.k8s.io/v1");
        let review = json!({"kind": kind, "apiVersion": version, "metadata": {}, "spec": {}, "status": status});
        (201, review)
    })
}

fn router() -> Router {
    let registry = Registry::new();
    let args: Args = PROGRAM.try_parse_from(["adapter"]).expect("the defaults");
    let without_cas = Readiness::default();
    let auth = DelegatedAuth::new(args.auth, permissive(), &registry, PREFIX, &without_cas)
        .expect("metrics of authentication");
    let server = AdapterServer {
        auth,
        providers: adapter::providers::Providers::default(),
        metrics: Metrics::register(&registry).expect("metrics"),
        health: Endpoints {
            registry,
            readiness: Readiness::default(),
            activity: Activity::default(),
            shutdown: CancellationToken::new(),
        },
    };
    server.router()
}

/// Checks that the response is one that Kubernetes clients can parse, and not an internal error.
async fn check(response: Response<Body>, method: &Method, path: &str) -> StatusCode {
    let (head, body) = response.into_parts();
    assert!(!head.headers.contains_key(header::RETRY_AFTER), "{path}");
    let body = to_bytes(body, LARGEST).await.expect("a body");
    if *method == Method::HEAD {
        // A response to `HEAD` has no body.
        assert!(
            head.status.is_client_error() && body.is_empty(),
            "{path}: {}",
            head.status
        );
        return head.status;
    }
    if head.status == StatusCode::OK && ["/healthz", "/livez", "/readyz"].contains(&path) {
        return head.status;
    }
    let kind = &head.headers[header::CONTENT_TYPE];
    let is_json = kind.as_bytes().starts_with(b"application/json");
    assert!(is_json, "{path}: {kind:?}");
    let body: Value =
        serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{path}: {error}"));
    if head.status == StatusCode::OK {
        assert!(
            body["kind"].is_string() || body["paths"].is_object(),
            "{path}: {body}"
        );
        return head.status;
    }
    assert_eq!(body["kind"], "Status", "{path}");
    assert_eq!(body["status"], "Failure", "{path}");
    assert_eq!(body["code"], head.status.as_u16(), "{path}");
    let message = body["message"].as_str().unwrap_or_default();
    assert!(
        !message.is_empty() && !message.contains('\n'),
        "{path}: {body}"
    );
    assert!(!head.status.is_server_error(), "{path}: {body}");
    head.status
}

#[tokio::test]
async fn hostile_requests_get_a_status() {
    let wish = std::env::var("PLIMSOLL_HOSTILE_REQUESTS").ok();
    let wanted = wish.map_or(REQUESTS, |text| {
        text.parse().expect("PLIMSOLL_HOSTILE_REQUESTS is a number")
    });
    let (router, strategy, mut runner) = (router(), hostile(), TestRunner::deterministic());
    let (mut sent, mut codes) = (0, std::collections::BTreeMap::<u16, usize>::new());
    while sent < wanted {
        let hostile: Hostile = strategy.new_tree(&mut runner).expect("a request").current();
        let Some(request) = hostile.request() else {
            continue;
        };
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let Ok(response) = router.clone().oneshot(request).await;
        *codes
            .entry(check(response, &method, &path).await.as_u16())
            .or_default() += 1;
        sent += 1;
    }
    println!("{sent} requests, by code: {codes:?}");
    for code in [200, 400, 404, 405] {
        assert!(codes.contains_key(&code), "none came to {code}: {codes:?}");
    }
}

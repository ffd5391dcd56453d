//! The HTTPS endpoint that the API server sends reviews to.

mod review_wait;

use std::sync::Arc;
use std::time::Duration;

use admission::{
    AdmissionConfig, Decision, FeedLookup, Input, PatchFailure, admit_unreviewed, review,
};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::map_response_with_state;
use axum::response::{IntoResponse, Response};
use feed::Subscription;
use model::Recommendation;
use serving::http_server::Limits;
use serving::request_body::BodyLimits;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use view::{View, Vpa};

use crate::metrics::Metrics;
use crate::overload::Overload;
use review_wait::ReviewWait;

/// Maximum size of a body, as upstream. The API server's own limit of objects is lower.
const MAX_BYTES: usize = 5 << 20;
/// Maximum size of all bodies together: those of several thousand typical reviews.
const MAX_TOTAL_BYTES: usize = 64 << 20;
/// Maximum number of requests whose bodies have not arrived. A connection may have hundreds, and each
/// costs some memory.
const MAX_PENDING: usize = 8192;

/// The limits of clients. The API server is the only one, but the whole cluster can connect.
pub const LIMITS: Limits = Limits {
    connections: 2048,
    // The API server shows no certificate here.
    unauthenticated: 2048,
    streams: 250,
    header_timeout: Duration::from_secs(10),
    // The API server closes connections that were idle for 90 s.
    idle_timeout: Duration::from_mins(3),
    request_timeout: Duration::from_secs(10),
    connection_age: Duration::from_hours(1),
    headers: 100,
    body_bytes: MAX_BYTES,
};

/// Responds to reviews. Clones share everything.
#[derive(Debug, Clone)]
pub struct ReviewHandler {
    pub view: watch::Receiver<View>,
    /// The recommendations of the feed, if there is one.
    pub feed: Option<watch::Receiver<Subscription>>,
    pub config: Arc<AdmissionConfig>,
    pub metrics: Metrics,
    pub overload: Overload,
    /// Cancelled when this replica is about to end. From then on each response asks the client to
    /// open another connection.
    pub shutdown: CancellationToken,
}

struct Endpoint {
    handler: ReviewHandler,
    limits: BodyLimits,
    wait: ReviewWait,
}

impl ReviewHandler {
    /// The routes: every path takes reviews, as upstream.
    pub fn router(self) -> Router {
        let shutdown = self.shutdown.clone();
        let endpoint = Endpoint {
            handler: self,
            limits: BodyLimits::new(MAX_BYTES, MAX_TOTAL_BYTES, MAX_PENDING),
            wait: ReviewWait::default(),
        };
        Router::new()
            .fallback(respond)
            .layer(map_response_with_state(shutdown, close_after_shutdown))
            .with_state(Arc::new(endpoint))
    }

    fn decide(&self, body: &[u8]) -> Decision {
        if self.overload.is_active()
            && let Some(decision) = admit_unreviewed(body)
        {
            self.metrics.shed.inc();
            return decision;
        }
        let view = self.view.borrow();
        let feed = self.feed.as_ref().map(watch::Receiver::borrow);
        let lookup = feed
            .as_deref()
            .map(|feed| |vpa: &Vpa| over_status(feed, vpa));
        let input = Input {
            view: &view,
            feed: lookup.as_ref().map(|lookup| lookup as &FeedLookup<'_>),
            config: &self.config,
        };
        let decision = review(&input, body);
        if let Some(PatchFailure { vpa, error }) = &decision.failure {
            tracing::warn!(autoscaler = %vpa, %error, "admitting a pod unchanged");
        }
        decision
    }
}

/// The recommendation of the feed, if it replaces the one in the status. The updater follows the
/// same rule ([`Subscription::over_status`]).
fn over_status<'a>(feed: &'a Subscription, vpa: &Vpa) -> Option<&'a Recommendation> {
    let status = vpa.object.status.as_ref();
    let generation = status.map_or(0, |status| status.observed_generation);
    let has_recommendation = vpa.recommendation().is_some();
    let received = feed.over_status(vpa.uid(), generation, has_recommendation)?;
    Some(&received.value.recommendation)
}

async fn respond(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    let handler = &endpoint.handler;
    let content_type = request.headers().get(header::CONTENT_TYPE);
    if content_type.is_none_or(|value| value != "application/json") {
        // Upstream's response, after which the API server applies its failure policy.
        return StatusCode::OK.into_response();
    }
    let body = match endpoint.limits.read(request.into_body()).await {
        Ok(body) => body,
        Err(rejection) => return rejection.into_response(),
    };
    let mut timer = handler.metrics.timer(body.received_at);
    timer.end_reading();
    let decide = || {
        let mut decision = handler.decide(&body);
        let awaits = decision.awaits.take();
        (decision, awaits)
    };
    let view = handler.view.clone();
    let decision = endpoint.wait.until_final(view, body.len(), decide).await;
    handler.metrics.record(&decision, timer.finish());
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (headers, decision.body).into_response()
}

async fn close_after_shutdown(
    State(shutdown): State<CancellationToken>,
    mut response: Response,
) -> Response {
    if shutdown.is_cancelled() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::{Body, Bytes, to_bytes};
    use futures::stream;
    use prometheus::Registry;
    use serde_json::{Value, json};
    use tower::ServiceExt as _;

    use super::*;

    /// Number of requests with unfinished bodies.
    const UNFINISHED: usize = MAX_PENDING + 100;

    fn request(body: Body) -> Request {
        let builder = Request::post("/").header(header::CONTENT_TYPE, "application/json");
        builder.body(body).expect("a request")
    }

    fn router(overload: Overload) -> Router {
        let handler = ReviewHandler {
            view: watch::channel(View::default()).1,
            feed: None,
            config: Arc::default(),
            metrics: Metrics::register(&Registry::new()).expect("names are valid"),
            overload,
            shutdown: CancellationToken::new(),
        };
        handler.router()
    }

    fn invalid_vpa() -> String {
        let review = json!({"request": {
            "uid": "1", "operation": "CREATE",
            "resource": {"group": "autoscaling.k8s.io", "version": "v1", "resource": "verticalpodautoscalers"},
            "object": {"spec": {"updatePolicy": {"updateMode": "Never"}}},
        }});
        review.to_string()
    }

    async fn text(response: Response) -> String {
        let body = to_bytes(response.into_body(), usize::MAX).await;
        String::from_utf8(body.expect("a body").to_vec()).expect("UTF-8")
    }

    async fn is_allowed(router: Router, review: impl Into<Body>) -> bool {
        let response = router
            .oneshot(request(review.into()))
            .await
            .expect("a response");
        let review: Value = serde_json::from_str(&text(response).await).expect("a review");
        review["response"]["allowed"].as_bool().expect("a boolean")
    }

    #[tokio::test]
    async fn invalid_vpas_are_refused_during_overload_too() {
        assert!(!is_allowed(router(Overload::active()), invalid_vpa()).await);
    }

    #[tokio::test]
    async fn unfinished_bodies_do_not_block_other_reviews() {
        let router = router(Overload::default());
        let mut open = tokio::task::JoinSet::new();
        for _ in 0..UNFINISHED {
            let unfinished = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
            open.spawn(router.clone().oneshot(request(unfinished)));
        }
        while open.len() > MAX_PENDING {
            let dropped = open
                .join_next()
                .await
                .expect("some wait")
                .expect("no panic")
                .expect("a response");
            assert_eq!(dropped.status(), StatusCode::SERVICE_UNAVAILABLE);
        }
        assert!(!is_allowed(router, invalid_vpa()).await, "it was reviewed");
        // Its body had arrived, so it dropped none of the others, or one.
        assert!(
            open.len() == MAX_PENDING && open.try_join_next().is_none(),
            "the others are still pending"
        );
    }
}

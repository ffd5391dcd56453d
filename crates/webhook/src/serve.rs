//! The HTTPS endpoint that the API server asks.

mod body;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use admission::{
    AdmissionConfig, Decision, FeedLookup, Input, PatchFailure, admit_unreviewed, review,
    status_recommendation,
};
use axum::Router;
use axum::extract::{Request, State as Extracted};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use feed::Subscription;
use model::Recommendation;
use serving::serve::Limits;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use view::{Autoscaler, View};

use crate::metrics::Metrics;
use crate::overload::Load;
use body::Bodies;

/// What the endpoint gives its clients at most. There is one client, the API server; everybody else
/// in the cluster can knock.
pub const LIMITS: Limits = Limits {
    connections: 8192,
    // The API server shows no certificate here.
    unauthenticated: 8192,
    streams: 250,
    header_timeout: Duration::from_secs(10),
    // The API server closes connections that were idle for 90 s.
    idle_timeout: Duration::from_mins(3),
    request_timeout: Duration::from_secs(10),
    connection_age: Duration::from_hours(1),
    headers: 100,
    body_bytes: body::LARGEST,
};

/// What reviews are answered from. Clones share everything.
#[derive(Debug, Clone)]
pub struct Reviews {
    /// The cluster as last seen.
    pub view: watch::Receiver<View>,
    /// What the recommender told, where there is a feed.
    pub heard: Option<watch::Receiver<Subscription>>,
    /// What the command line says.
    pub config: Arc<AdmissionConfig>,
    /// What is measured.
    pub metrics: Metrics,
    /// Whether there is too much to do.
    pub load: Load,
    /// Cancelled when this replica is about to end: clients are asked to take their next request
    /// elsewhere.
    pub leaving: CancellationToken,
}

impl Reviews {
    /// The routes: every path takes reviews, as upstream's does.
    pub fn router(self) -> Router {
        Router::new()
            .fallback(answer)
            .with_state(Arc::new((self, Bodies::default())))
    }

    fn decide(&self, body: &[u8]) -> Decision {
        let view = self.view.borrow();
        let heard = self.heard.as_ref().map(watch::Receiver::borrow);
        let lookup = heard
            .as_deref()
            .map(|heard| |autoscaler: &Autoscaler| over_status(heard, autoscaler));
        let input = Input {
            view: &view,
            feed: lookup.as_ref().map(|lookup| lookup as &FeedLookup<'_>),
            config: &self.config,
        };
        let answer = review(&input, body);
        if let Some(PatchFailure { autoscaler, error }) = &answer.failure {
            tracing::warn!(%autoscaler, %error, "a pod starts as it was asked for");
        }
        answer
    }
}

/// The recommendation of the feed, where it replaces the one in the status. The updater follows the
/// same rule ([`Subscription::over_status`]).
fn over_status<'a>(heard: &'a Subscription, autoscaler: &Autoscaler) -> Option<&'a Recommendation> {
    let status = autoscaler.object.status.as_ref();
    let generation = status.map_or(0, |status| status.observed_generation);
    let is_written = status_recommendation(autoscaler).is_some();
    let received = heard.over_status(autoscaler.uid(), generation, is_written)?;
    Some(&received.value.recommendation)
}

async fn answer(Extracted(state): Extracted<Arc<(Reviews, Bodies)>>, request: Request) -> Response {
    let (reviews, bodies) = &*state;
    let mut response = reviewed(reviews, bodies, request).await;
    if reviews.leaving.is_cancelled() {
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn reviewed(reviews: &Reviews, bodies: &Bodies, request: Request) -> Response {
    if request
        .headers()
        .get(header::CONTENT_TYPE)
        .is_none_or(|value| value != "application/json")
    {
        // Upstream's reply, after which the API server does as its failure policy says.
        return StatusCode::OK.into_response();
    }
    let mut timer = reviews.metrics.timer();
    let body = match bodies.read(request.into_body()).await {
        Ok(body) => body,
        Err(refused) => return refused.into_response(),
    };
    timer.read();
    let shed = if reviews.load.is_too_much() {
        admit_unreviewed(&body)
    } else {
        None
    };
    if shed.is_some() {
        reviews.metrics.shed();
    }
    let answer = shed.unwrap_or_else(|| reviews.decide(&body));
    reviews.metrics.answered(&answer, timer.admitted());
    ([(header::CONTENT_TYPE, "application/json")], answer.body).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, Bytes};
    use futures::stream;
    use serde_json::{Value, json};
    use tower::ServiceExt as _;

    use super::*;

    /// Requests that are never sent to their end.
    const TOO_MANY: usize = body::AWAITED + 100;

    fn request(body: Body) -> Request {
        let builder = Request::post("/").header(header::CONTENT_TYPE, "application/json");
        builder.body(body).expect("a request")
    }

    fn reviews(load: Load) -> Reviews {
        Reviews {
            view: watch::channel(View::default()).1,
            heard: None,
            config: Arc::default(),
            metrics: Metrics::register(&prometheus::Registry::new()).expect("names are valid"),
            load,
            leaving: CancellationToken::new(),
        }
    }

    /// A review of an autoscaler that makes no sense.
    fn nonsense() -> Body {
        let review = json!({"request": {
            "uid": "1", "operation": "CREATE",
            "resource": {"group": "autoscaling.k8s.io", "version": "v1", "resource": "verticalpodautoscalers"},
            "object": {"spec": {"updatePolicy": {"updateMode": "Never"}}},
        }});
        review.to_string().into()
    }

    async fn is_allowed(router: Router, review: Body) -> bool {
        let answer = router.oneshot(request(review)).await.expect("an answer");
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX)
            .await
            .expect("a body");
        let answer: Value = serde_json::from_slice(&body).expect("a review");
        answer["response"]["allowed"].as_bool().expect("a verdict")
    }

    #[tokio::test]
    async fn objects_that_make_no_sense_are_refused_also_when_there_is_too_much_to_do() {
        assert!(!is_allowed(reviews(Load::too_much()).router(), nonsense()).await);
    }

    #[tokio::test]
    async fn bodies_that_do_not_come_keep_nobody_from_an_answer_in_full() {
        let router = reviews(Load::default()).router();
        let mut open = tokio::task::JoinSet::new();
        for _ in 0..TOO_MANY {
            let never =
                Body::from_stream(stream::pending::<Result<Bytes, std::convert::Infallible>>());
            open.spawn(router.clone().oneshot(request(never)));
        }
        while open.len() > body::AWAITED {
            let refused = open
                .join_next()
                .await
                .expect("some wait")
                .expect("no panic")
                .expect("an answer");
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        }
        assert!(!is_allowed(router, nonsense()).await, "it was looked at");
        // It found its place without a wait, or sent away one more.
        assert!(
            open.len() == body::AWAITED && open.try_join_next().is_none(),
            "the others are still open"
        );
    }
}

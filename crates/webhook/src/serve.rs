//! The HTTPS endpoint that the API server asks.

use std::sync::Arc;

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State as Extracted};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use cluster::View;
use feed::Following;
use tokio::sync::watch;

use crate::decide;
use crate::metrics::Metrics;
use crate::state::{Settings, State};

/// The largest review that is read, as upstream's. The API server's own limit on objects is below it.
const BODY_BYTES: usize = 5 << 20;

/// What reviews are answered from. Clones share everything.
#[derive(Debug, Clone)]
pub struct Reviews {
    /// The cluster as last seen.
    pub view: watch::Receiver<View>,
    /// What the recommender told, where there is a feed.
    pub heard: Option<watch::Receiver<Following>>,
    /// What the command line says.
    pub settings: Arc<Settings>,
    /// What is measured.
    pub metrics: Metrics,
}

impl Reviews {
    /// The routes: every path takes reviews, as upstream's does.
    pub fn router(self) -> Router {
        Router::new().fallback(answer).with_state(self)
    }

    fn decide(&self, body: &[u8]) -> decide::Answer {
        let view = self.view.borrow();
        let heard = self.heard.as_ref().map(watch::Receiver::borrow);
        let state = State { view: &view, heard: heard.as_deref(), settings: &self.settings };
        decide::review(&state, body)
    }
}

async fn answer(Extracted(reviews): Extracted<Reviews>, request: Request) -> Response {
    if !is_json(request.headers().get(header::CONTENT_TYPE)) {
        // Upstream's reply, after which the API server does as its failure policy says.
        return StatusCode::OK.into_response();
    }
    let mut timer = reviews.metrics.timer();
    let body: Bytes = match to_bytes(request.into_body(), BODY_BYTES).await {
        Ok(body) => body,
        Err(_) => return (StatusCode::PAYLOAD_TOO_LARGE, "request payload too large\n").into_response(),
    };
    timer.step("read_request");
    let answer = reviews.decide(&body);
    timer.step("admit");
    let text = answer.review.to_string();
    timer.step("build_response");
    reviews.metrics.answered(&answer, timer.total());
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn is_json(content_type: Option<&HeaderValue>) -> bool {
    content_type.is_some_and(|value| value == "application/json")
}

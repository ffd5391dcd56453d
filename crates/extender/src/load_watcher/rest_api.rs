//! The REST API of load-watcher: `/watcher`, `/watcher/{host}` and `/watcher/health`.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::map_response_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use placement::Window;
use prometheus::IntCounterVec;
use serde::Deserialize;
use tokio::sync::watch;

use super::Clock;
use super::collected::Collected;
use super::document;

/// Maximum length of a node's name.
const MAX_HOST_BYTES: usize = 253;

/// Answers from the newest load.
#[derive(Clone)]
pub struct RestApi {
    pub(super) collected: watch::Receiver<Arc<Collected>>,
    pub(super) clock: Clock,
    pub(super) requests: IntCounterVec,
}

#[derive(Deserialize)]
struct Parameters {
    host: Option<String>,
    window: Option<String>,
}

/// An answer other than JSON.
type Refusal = (StatusCode, String);

fn bad_request(text: impl Into<String>) -> Refusal {
    (StatusCode::BAD_REQUEST, text.into())
}

impl RestApi {
    pub fn router(self) -> Router {
        let requests = self.requests.clone();
        Router::new()
            .route("/watcher", get(load))
            .route("/watcher/health", get(health))
            .route("/watcher/{host}", get(load_of_host))
            .layer(map_response_with_state(requests, count))
            .with_state(self)
    }

    fn answer(&self, host: Option<&str>, window: Option<&str>) -> Result<Response, Refusal> {
        let longest = window.map_or(Ok(Window::Fifteen), parse_window)?;
        host.map_or(Ok(()), check_host)?;
        let collected = Arc::clone(&self.collected.borrow());
        let mut fresh = collected.fresh(longest, (self.clock)());
        let document = match host {
            None => fresh.next().map(|record| record.document()),
            Some(host) => fresh
                .find_map(|record| document::one_node(record, host))
                .map(Into::into),
        };
        let document = document.ok_or_else(|| {
            let text = host.map_or_else(
                || "No metrics found".to_owned(),
                |host| format!("No metrics found for host {host}"),
            );
            (StatusCode::NOT_FOUND, text)
        })?;
        Ok(([(CONTENT_TYPE, "application/json")], document).into_response())
    }
}

async fn count(State(requests): State<IntCounterVec>, response: Response) -> Response {
    requests
        .with_label_values(&[response.status().as_str()])
        .inc();
    response
}

async fn load(
    State(api): State<RestApi>,
    parameters: Result<Query<Parameters>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(Parameters { host, window }) =
        parameters.map_err(|it| bad_request(it.body_text()))?;
    api.answer(host.as_deref(), window.as_deref())
}

async fn load_of_host(
    State(api): State<RestApi>,
    host: Result<Path<String>, PathRejection>,
    parameters: Result<Query<Parameters>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Path(host) = host.map_err(|it| bad_request(it.body_text()))?;
    let Query(Parameters {
        host: other,
        window,
    }) = parameters.map_err(|it| bad_request(it.body_text()))?;
    if other.is_some() {
        return Err(bad_request(
            "host is given twice, in the path and in the query",
        ));
    }
    api.answer(Some(&host), window.as_deref())
}

/// 200 while any window is fresh, else 503.
async fn health(State(api): State<RestApi>) -> StatusCode {
    let collected = Arc::clone(&api.collected.borrow());
    match collected.fresh(Window::Fifteen, (api.clock)()).next() {
        Some(_) => StatusCode::OK,
        None => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn parse_window(text: &str) -> Result<Window, Refusal> {
    let is_meant = |window: &Window| document::duration(*window) == text;
    let found = Window::ALL.into_iter().find(is_meant);
    found.ok_or_else(|| bad_request("window must be 15m, 10m or 5m"))
}

/// The name of a node is a DNS subdomain.
fn check_host(host: &str) -> Result<(), Refusal> {
    let is_allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    let is_name = (1..=MAX_HOST_BYTES).contains(&host.len()) && host.bytes().all(is_allowed);
    let text = "host must be the name of a node: at most 253 characters of a-z, 0-9, - and .";
    is_name.then_some(()).ok_or_else(|| bad_request(text))
}

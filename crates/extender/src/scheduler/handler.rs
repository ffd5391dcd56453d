//! The routes of filter and prioritize, with the limits of requests.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use placement::Policy;
use serving::request_body::{BodyLimits, BodyRejection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout_at;

use super::decide::Answer;
use super::protocol::InvalidArgs;
use super::{Basis, NeutralReason, Scheduler, Verb};

/// Bodies up to this size, with about 2,500 nodes, are decided on the thread that has read them:
/// that takes at most a millisecond or two, and on a busy machine another thread begins later.
const INLINE_BYTES: usize = 64 << 10;
/// Number of the largest bodies that are held in memory at a time.
const BODIES: usize = 4;
const MAX_PENDING: usize = 1024;
/// Response header with the basis of an answer: load, allocation or neutral.
const BASIS: HeaderName = HeaderName::from_static("plimsoll-placement");

#[derive(Clone)]
struct Endpoint {
    scheduler: Scheduler,
    bodies: BodyLimits,
    permits: Arc<Semaphore>,
}

/// Reason for an answer without scores.
enum Failure {
    Late,
    /// The request is refused: label of the reason, status and text.
    Refused(&'static str, StatusCode, String),
}

pub fn router(scheduler: Scheduler) -> Router {
    let permits = Arc::new(Semaphore::new(scheduler.config.max_requests));
    let max_bytes = scheduler.config.max_body_bytes;
    let bodies = BodyLimits::new(max_bytes, max_bytes.saturating_mul(BODIES), MAX_PENDING);
    Router::new()
        .route("/filter", post(filter))
        .route("/prioritize", post(prioritize))
        .route("/profiles/{name}/filter", post(filter_of_profile))
        .route("/profiles/{name}/prioritize", post(prioritize_of_profile))
        .with_state(Endpoint {
            scheduler,
            bodies,
            permits,
        })
}

async fn filter(State(endpoint): State<Endpoint>, body: Body) -> Response {
    let decide = |scheduler: &Scheduler, body: &[u8], deadline| scheduler.filter(body, deadline);
    endpoint.respond(Verb::Filter, body, decide).await
}

async fn filter_of_profile(
    State(endpoint): State<Endpoint>,
    Path(name): Path<String>,
    body: Body,
) -> Response {
    match endpoint.profile(Verb::Filter, &name) {
        // Thresholds are the same for every profile.
        Ok(_) => filter(State(endpoint), body).await,
        Err(response) => *response,
    }
}

async fn prioritize(State(endpoint): State<Endpoint>, body: Body) -> Response {
    endpoint.prioritize(None, body).await
}

async fn prioritize_of_profile(
    State(endpoint): State<Endpoint>,
    Path(name): Path<String>,
    body: Body,
) -> Response {
    match endpoint.profile(Verb::Prioritize, &name) {
        Ok(policy) => endpoint.prioritize(Some(policy), body).await,
        Err(response) => *response,
    }
}

impl Endpoint {
    fn profile(&self, verb: Verb, name: &str) -> Result<Policy, Box<Response>> {
        let policy = self.scheduler.config.profiles.get(name);
        policy.copied().ok_or_else(|| {
            let text = "no such profile; see profiles in the file of --config";
            Box::new(self.refuse(verb, "unknown_profile", StatusCode::NOT_FOUND, text))
        })
    }

    async fn prioritize(self, policy: Option<Policy>, body: Body) -> Response {
        let decide = move |scheduler: &Scheduler, body: &[u8], deadline| {
            scheduler.prioritize(body, policy, deadline)
        };
        self.respond(Verb::Prioritize, body, decide).await
    }

    /// Reads the body and decides, within the limits.
    async fn respond(
        self,
        verb: Verb,
        body: Body,
        decide: impl FnOnce(&Scheduler, &[u8], Instant) -> Result<Answer, InvalidArgs> + Send + 'static,
    ) -> Response {
        let started_at = Instant::now();
        let deadline = started_at + self.scheduler.config.deadline;
        let answer = self.answer(verb, body, deadline, decide).await;
        let answer = match answer {
            Ok(answer) => answer,
            // kube-scheduler takes 0 for nodes that are not listed.
            Err(Failure::Late) if verb == Verb::Prioritize => Answer {
                body: b"[]".to_vec(),
                basis: Basis::Neutral(NeutralReason::Deadline),
            },
            Err(Failure::Late) => {
                let text = "no capacity within the deadline";
                let status = StatusCode::SERVICE_UNAVAILABLE;
                return self.refuse(verb, "overloaded", status, text);
            }
            Err(Failure::Refused(reason, status, text)) => {
                return self.refuse(verb, reason, status, &text);
            }
        };
        let metrics = &self.scheduler.metrics;
        metrics.record(verb, answer.basis, started_at.elapsed());
        let headers = [
            (header::CONTENT_TYPE, "application/json"),
            (BASIS, answer.basis.name()),
        ];
        (headers, answer.body).into_response()
    }

    async fn answer(
        &self,
        verb: Verb,
        body: Body,
        deadline: Instant,
        decide: impl FnOnce(&Scheduler, &[u8], Instant) -> Result<Answer, InvalidArgs> + Send + 'static,
    ) -> Result<Answer, Failure> {
        // Before a place is taken: a body that never ends must not hold one.
        let body = timeout_at(deadline.into(), self.bodies.read(body))
            .await
            .map_err(|_| Failure::Late)?
            .map_err(|rejection| self.rejected(rejection))?;
        let permit = Arc::clone(&self.permits).acquire_owned();
        let permit = timeout_at(deadline.into(), permit).await;
        // The semaphore is never closed.
        let Ok(Ok(permit)) = permit else {
            return Err(Failure::Late);
        };
        if body.len() <= INLINE_BYTES {
            return decide(&self.scheduler, &body, deadline).map_err(|error| invalid(&error));
        }
        let scheduler = self.scheduler.clone();
        let work = tokio::task::spawn_blocking(move || {
            let _permit: OwnedSemaphorePermit = permit;
            decide(&scheduler, &body, deadline)
        });
        // A filter must name nodes, so it is always awaited; parsing takes time by its bytes.
        let decided = match verb {
            Verb::Filter => work.await,
            Verb::Prioritize => timeout_at(deadline.into(), work)
                .await
                .map_err(|_| Failure::Late)?,
        };
        match decided {
            Ok(decided) => decided.map_err(|error| invalid(&error)),
            Err(error) => {
                tracing::error!(%error, "a decision ended early");
                Err(Failure::Late)
            }
        }
    }

    fn rejected(&self, rejection: BodyRejection) -> Failure {
        let (status, text) = rejection.response();
        match rejection {
            BodyRejection::TooLarge => {
                let most = self.scheduler.config.max_body_bytes;
                let text = format!("a body has at most {most} bytes");
                Failure::Refused("too_large", status, text)
            }
            BodyRejection::Overloaded => Failure::Late,
            BodyRejection::Incomplete => {
                Failure::Refused("invalid", status, text.trim_end().to_owned())
            }
        }
    }

    fn refuse(&self, verb: Verb, reason: &str, status: StatusCode, text: &str) -> Response {
        self.scheduler.metrics.refuse(verb, reason);
        (status, format!("{text}\n")).into_response()
    }
}

fn invalid(error: &InvalidArgs) -> Failure {
    Failure::Refused("invalid", StatusCode::BAD_REQUEST, error.to_string())
}

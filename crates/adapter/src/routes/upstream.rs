//! Another provider: who it is, whether it is well, and what it said last.

use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delegated_auth::coalescing_cache::{CoalescingCache, Key, key};
use http::HeaderValue;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use sources::causes::with_causes;

use super::breaker::CircuitBreaker;
use super::client::UpstreamClient;
use super::file::{MAX_STALE, UpstreamSpec};
use super::metrics::{Metrics, Outcome};
use super::response::UpstreamError;
use super::via::LoopDetected;
use crate::request::ExternalMetricRequest;
use crate::status_error::StatusError;
use crate::value::ExternalValue;

/// How long an answer serves others who ask the same.
const TTL: Duration = Duration::from_secs(1);
/// Answers that may stand in.
const CAPACITY: u64 = 4096;

type Answer = Result<Arc<[ExternalValue]>, Failure>;

/// Another provider. Clones share everything.
#[derive(Clone)]
pub(super) struct Upstream {
    spec: Arc<UpstreamSpec>,
    /// Or why there is none.
    client: Result<UpstreamClient, String>,
    breaker: Arc<Mutex<CircuitBreaker>>,
    answers: CoalescingCache<Answer>,
    last: Cache<Key, LastResponse>,
    metrics: Metrics,
}

/// What was said last about a question.
#[derive(Debug, Clone)]
struct LastResponse {
    values: Arc<[ExternalValue]>,
    at: Instant,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Failure {
    /// It was asked.
    Exchange(UpstreamError),
    /// It was not, because it has failed too often.
    CircuitOpen,
    /// It cannot be. The log says why.
    NoClient,
}

impl Failure {
    /// The text for whoever asks. Files and addresses are in the log alone.
    fn text(&self) -> String {
        match self {
            Self::Exchange(error) => error.to_string(),
            Self::CircuitOpen => {
                "it has failed too often and is not asked for some seconds".to_owned()
            }
            Self::NoClient => "its certificates or settings cannot be used".to_owned(),
        }
    }
}

impl Upstream {
    /// One that is to be asked from now on, after that one. `token`: the file with who we are.
    pub(super) async fn next(
        spec: &UpstreamSpec,
        before: Option<&Self>,
        token: &Path,
        metrics: &Metrics,
    ) -> Self {
        if let Some(before) = before
            && *before.spec == *spec
            && let Ok(client) = &before.client
            && client.is_up_to_date(spec).await
        {
            return before.clone();
        }
        let next = Self {
            spec: Arc::new(spec.clone()),
            client: UpstreamClient::open(spec, token).await,
            breaker: Arc::default(),
            answers: CoalescingCache::default(),
            last: Cache::builder()
                .max_capacity(CAPACITY)
                .time_to_live(MAX_STALE)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            metrics: metrics.clone(),
        };
        if next.client.is_ok() {
            metrics.set_circuit_open(&spec.name, false);
        } else {
            metrics.remove_upstream(&spec.name);
        }
        next.after(before)
    }

    /// It knows what that one said if it is in the same place.
    fn after(mut self, before: Option<&Self>) -> Self {
        if let Some(before) = before.filter(|before| before.spec.uri() == self.spec.uri()) {
            self.last = before.last.clone();
        }
        let why_not = self.client.as_ref().err();
        if let Some(why) =
            why_not.filter(|_| before.is_none_or(|before| before.client.as_ref().err() != why_not))
        {
            tracing::warn!(
                upstream = self.spec.name,
                why,
                "another provider cannot be asked"
            );
        }
        self
    }

    /// A question that came back.
    pub(super) fn loop_detected(
        &self,
        route: &str,
        request: &ExternalMetricRequest,
        error: &LoopDetected,
    ) -> StatusError {
        self.metrics
            .forwarded(route, &self.spec.name, Outcome::Loop, Duration::ZERO);
        StatusError::NotFound(format!(
            "the metric {} is forwarded to the provider {}, but {error}",
            request.metric, self.spec.name
        ))
    }

    /// What it says; what it said last, if it says nothing now and that is not too long ago; else
    /// why not.
    pub(super) async fn ask(
        &self,
        route: &str,
        request: &ExternalMetricRequest,
        via: HeaderValue,
    ) -> Result<Vec<ExternalValue>, StatusError> {
        let began = Instant::now();
        let question = format!(
            "{}\n{}\n{}",
            request.namespace, request.metric, request.selector
        );
        let last = key(question.as_bytes());
        let shared = key(&[question.as_bytes(), b"\n", via.as_bytes()].concat());
        let (upstream, question) = (self.clone(), request.clone());
        let exchange = async move { upstream.exchange(&question, via, last).await };
        let answer = self
            .answers
            .get(shared, &request.namespace, exchange)
            .await
            .map(|(answer, _)| answer);
        let (outcome, result) = self.result(answer, &last);
        self.metrics
            .forwarded(route, &self.spec.name, outcome, began.elapsed());
        result
    }

    fn result(
        &self,
        answer: Option<Answer>,
        last: &Key,
    ) -> (Outcome, Result<Vec<ExternalValue>, StatusError>) {
        let failure = match answer {
            Some(Ok(values)) => return (Outcome::Answered, Ok(values.to_vec())),
            Some(Err(Failure::Exchange(UpstreamError::NotFound(message)))) => {
                return (
                    Outcome::NotFound,
                    Err(StatusError::NotFound(format!(
                        "{message} (asked of {})",
                        self.spec.name
                    ))),
                );
            }
            Some(Err(Failure::Exchange(UpstreamError::BadRequest(message)))) => {
                return (
                    Outcome::Failed,
                    Err(StatusError::BadRequest(format!(
                        "{message} (asked of {})",
                        self.spec.name
                    ))),
                );
            }
            Some(Err(failure)) => failure.text(),
            None => "too many questions at once".to_owned(),
        };
        if let Some(values) = self.last_response(last) {
            return (Outcome::Stale, Ok(values.to_vec()));
        }
        let text = format!("the provider {} gives no metric: {failure}", self.spec.name);
        (Outcome::Failed, Err(StatusError::Unavailable(text)))
    }

    /// What was said last, which keeps the time that it is of.
    fn last_response(&self, key: &Key) -> Option<Arc<[ExternalValue]>> {
        let last = self.last.get(key)?;
        (last.at.elapsed() <= self.spec.max_stale).then_some(last.values)
    }

    async fn exchange(
        &self,
        request: &ExternalMetricRequest,
        via: HeaderValue,
        last: Key,
    ) -> (Answer, Duration) {
        let Ok(client) = &self.client else {
            return (Err(Failure::NoClient), Duration::ZERO);
        };
        if let Err(error) = client.validate(request) {
            return (Err(Failure::Exchange(error)), Duration::ZERO);
        }
        if !self.breaker.lock().allows_request(Instant::now()) {
            return (Err(Failure::CircuitOpen), Duration::ZERO);
        }
        let answer = client.exchange(request, &via, self.spec.timeout).await;
        let (was_open, is_open) = {
            let mut breaker = self.breaker.lock();
            let was_open = breaker.is_open();
            match &answer {
                Err(UpstreamError::Timeout(_)) => {
                    breaker.record_failure(Instant::now(), Some(key(request.namespace.as_bytes())));
                }
                Err(error) if !error.is_provider_alive() => {
                    breaker.record_failure(Instant::now(), None)
                }
                _ => breaker.record_success(),
            }
            (was_open, breaker.is_open())
        };
        self.metrics.set_circuit_open(&self.spec.name, is_open);
        match answer {
            Ok(values) => {
                let (values, at): (Arc<[_]>, _) = (values.into(), Instant::now());
                let kept = LastResponse {
                    values: Arc::clone(&values),
                    at,
                };
                self.last.insert(last, kept);
                (Ok(values), TTL)
            }
            Err(error) => {
                let (upstream, metric, reason) =
                    (&self.spec.name, &request.metric, with_causes(&error));
                if is_open && !was_open {
                    tracing::warn!(
                        upstream,
                        metric,
                        reason,
                        "provider failed repeatedly and is not asked for some seconds"
                    );
                } else {
                    tracing::debug!(upstream, metric, reason, "provider gives no metric");
                }
                (Err(Failure::Exchange(error)), Duration::ZERO)
            }
        }
    }
}

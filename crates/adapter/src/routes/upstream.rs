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

use super::breaker::Breaker;
use super::exchange::ExchangeError;
use super::file::{MAX_STALE, UpstreamSpec};
use super::hops::Loop;
use super::link::Link;
use super::metrics::{Metrics, Outcome};
use crate::answer::ExternalValue;
use crate::ask::ExternalAsk;
use crate::refusal::Refusal;

/// How long an answer serves others who ask the same.
const SHARED: Duration = Duration::from_secs(1);
/// Answers that may stand in.
const CAPACITY: u64 = 4096;

type Answer = Result<Arc<[ExternalValue]>, Failure>;

/// Another provider. Clones share everything.
#[derive(Clone)]
pub(super) struct Upstream {
    spec: Arc<UpstreamSpec>,
    /// Or why there is none.
    link: Result<Link, String>,
    breaker: Arc<Mutex<Breaker>>,
    answers: CoalescingCache<Answer>,
    last: Cache<Key, Last>,
    metrics: Metrics,
}

/// What was said last about a question.
#[derive(Debug, Clone)]
struct Last {
    values: Arc<[ExternalValue]>,
    at: Instant,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Failure {
    /// It was asked.
    Exchange(ExchangeError),
    /// It was not, because it has failed too often.
    Resting,
    /// It cannot be. The log says why.
    NoLink,
}

impl Failure {
    /// The text for whoever asks. Files and addresses are in the log alone.
    fn text(&self) -> String {
        match self {
            Self::Exchange(error) => error.to_string(),
            Self::Resting => "it has failed too often and is not asked for some seconds".to_owned(),
            Self::NoLink => "its certificates or settings cannot be used".to_owned(),
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
            && let Ok(link) = &before.link
            && link.is_current(spec).await
        {
            return before.clone();
        }
        let next = Self {
            spec: Arc::new(spec.clone()),
            link: Link::open(spec, token).await,
            breaker: Arc::default(),
            answers: CoalescingCache::default(),
            last: Cache::builder()
                .max_capacity(CAPACITY)
                .time_to_live(MAX_STALE)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            metrics: metrics.clone(),
        };
        if next.link.is_ok() {
            metrics.rests(&spec.name, false);
        } else {
            metrics.forget(&spec.name);
        }
        next.after(before)
    }

    /// It knows what that one said if it is in the same place.
    fn after(mut self, before: Option<&Self>) -> Self {
        if let Some(before) = before.filter(|before| before.spec.uri() == self.spec.uri()) {
            self.last = before.last.clone();
        }
        let why_not = self.link.as_ref().err();
        if let Some(why) =
            why_not.filter(|_| before.is_none_or(|before| before.link.as_ref().err() != why_not))
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
    pub(super) fn went_round(&self, route: &str, ask: &ExternalAsk, error: &Loop) -> Refusal {
        self.metrics
            .asked(route, &self.spec.name, Outcome::Loop, Duration::ZERO);
        Refusal::NotFound(format!(
            "the metric {} is left to the provider {}, but {error}",
            ask.metric, self.spec.name
        ))
    }

    /// What it says; what it said last, if it says nothing now and that is not too long ago; else
    /// why not.
    pub(super) async fn ask(
        &self,
        route: &str,
        ask: &ExternalAsk,
        hops: HeaderValue,
    ) -> Result<Vec<ExternalValue>, Refusal> {
        let began = Instant::now();
        let question = format!("{}\n{}\n{}", ask.namespace, ask.metric, ask.selector);
        let last = key(question.as_bytes());
        let shared = key(&[question.as_bytes(), b"\n", hops.as_bytes()].concat());
        let (upstream, question) = (self.clone(), ask.clone());
        let exchange = async move { upstream.exchange(&question, hops, last).await };
        let answer = self
            .answers
            .get(shared, &ask.namespace, exchange)
            .await
            .map(|(answer, _)| answer);
        let (outcome, result) = self.result(answer, &last);
        self.metrics
            .asked(route, &self.spec.name, outcome, began.elapsed());
        result
    }

    fn result(
        &self,
        answer: Option<Answer>,
        last: &Key,
    ) -> (Outcome, Result<Vec<ExternalValue>, Refusal>) {
        let failure = match answer {
            Some(Ok(values)) => return (Outcome::Answered, Ok(values.to_vec())),
            Some(Err(Failure::Exchange(ExchangeError::NotFound(message)))) => {
                return (
                    Outcome::NotFound,
                    Err(Refusal::NotFound(format!(
                        "{message} (asked of {})",
                        self.spec.name
                    ))),
                );
            }
            Some(Err(Failure::Exchange(ExchangeError::BadRequest(message)))) => {
                return (
                    Outcome::Failed,
                    Err(Refusal::BadRequest(format!(
                        "{message} (asked of {})",
                        self.spec.name
                    ))),
                );
            }
            Some(Err(failure)) => failure.text(),
            None => "too many questions at once".to_owned(),
        };
        if let Some(values) = self.said_last(last) {
            return (Outcome::Stale, Ok(values.to_vec()));
        }
        let text = format!("the provider {} gives no metric: {failure}", self.spec.name);
        (Outcome::Failed, Err(Refusal::Unavailable(text)))
    }

    /// What was said last, which keeps the time that it is of.
    fn said_last(&self, key: &Key) -> Option<Arc<[ExternalValue]>> {
        let last = self.last.get(key)?;
        (last.at.elapsed() <= self.spec.max_stale).then_some(last.values)
    }

    async fn exchange(
        &self,
        ask: &ExternalAsk,
        hops: HeaderValue,
        last: Key,
    ) -> (Answer, Duration) {
        let Ok(link) = &self.link else {
            return (Err(Failure::NoLink), Duration::ZERO);
        };
        if let Err(error) = link.takes(ask) {
            return (Err(Failure::Exchange(error)), Duration::ZERO);
        }
        if !self.breaker.lock().may_ask(Instant::now()) {
            return (Err(Failure::Resting), Duration::ZERO);
        }
        let answer = link.exchange(ask, &hops, self.spec.timeout).await;
        let (was_open, is_open) = {
            let mut breaker = self.breaker.lock();
            let was_open = breaker.is_open();
            match &answer {
                Err(ExchangeError::Timeout(_)) => {
                    breaker.failed(Instant::now(), Some(key(ask.namespace.as_bytes())));
                }
                Err(error) if !error.is_alive() => breaker.failed(Instant::now(), None),
                _ => breaker.succeeded(),
            }
            (was_open, breaker.is_open())
        };
        self.metrics.rests(&self.spec.name, is_open);
        match answer {
            Ok(values) => {
                let (values, at): (Arc<[_]>, _) = (values.into(), Instant::now());
                let kept = Last {
                    values: Arc::clone(&values),
                    at,
                };
                self.last.insert(last, kept);
                (Ok(values), SHARED)
            }
            Err(error) => {
                let (upstream, metric, reason) =
                    (&self.spec.name, &ask.metric, with_causes(&error));
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

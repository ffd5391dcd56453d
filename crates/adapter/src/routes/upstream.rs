//! An upstream provider: its client, its circuit breaker and its last responses.

use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delegated_auth::coalescing_cache::{CoalescingCache, Key, key};
use http::HeaderValue;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use sources::error_chain::with_causes;

use super::Metrics;
use super::aggregated::Aggregated;
use super::keda::{Keda, scaled_object};
use super::pem_reader::PemReader;
use super::response::UpstreamError;
use crate::request::{ExternalMetricRequest, StatusError};
use crate::value::ExternalValue;
use metric_routes::{Kind, MAX_STALE, UpstreamSpec};

/// The time that a request waits for a response. The adapter responds within two seconds.
const WAIT: Duration = Duration::from_millis(1800);
/// The time for which a response is shared by identical requests.
const TTL: Duration = Duration::from_secs(1);
/// The largest number of last responses.
const CAPACITY: u64 = 4096;

type Response = Result<Arc<[ExternalValue]>, UpstreamError>;

#[derive(Clone)]
pub(super) struct Upstream {
    spec: Arc<UpstreamSpec>,
    client: Result<UpstreamClient, String>,
    breaker: Arc<Mutex<CircuitBreaker>>,
    responses: CoalescingCache<Response>,
    last: Cache<Key, (Arc<[ExternalValue]>, Instant)>,
    metrics: Metrics,
}

#[derive(Clone)]
enum UpstreamClient {
    /// The API `external.metrics.k8s.io`.
    Aggregated(Aggregated),
    /// The gRPC service of KEDA's operator.
    Keda(Keda),
}

impl UpstreamClient {
    /// `token`: the file with the adapter's service account token. The first request connects.
    async fn open(spec: &UpstreamSpec, reader: &PemReader, token: &Path) -> Result<Self, String> {
        match spec.kind {
            Kind::Aggregated => {
                let aggregated = Aggregated::open(spec, reader, token).await;
                aggregated.map(Self::Aggregated)
            }
            Kind::KedaGrpc => Keda::open(spec, reader).await.map(Self::Keda),
        }
    }

    /// Whether the client can be kept. Reloads certificates that can change without a new client.
    async fn is_up_to_date(&self, spec: &UpstreamSpec, reader: &PemReader) -> bool {
        match self {
            Self::Aggregated(aggregated) => aggregated.is_up_to_date(spec, reader).await,
            Self::Keda(keda) => {
                keda.follow_certificates(spec, reader).await;
                true
            }
        }
    }

    /// Rejects a request that the protocol cannot express.
    fn validate(&self, request: &ExternalMetricRequest) -> Result<(), UpstreamError> {
        match self {
            Self::Aggregated(_) => Ok(()),
            Self::Keda(_) => scaled_object(request).map(drop),
        }
    }

    /// Sends a request. The response may take `time`.
    async fn exchange(
        &self,
        request: &ExternalMetricRequest,
        via: &HeaderValue,
        time: Duration,
    ) -> Result<Vec<ExternalValue>, UpstreamError> {
        let exchange = async {
            match self {
                Self::Aggregated(aggregated) => aggregated.exchange(request, via).await,
                Self::Keda(keda) => keda.exchange(request).await,
            }
        };
        let response = tokio::time::timeout(time, exchange)
            .await
            .unwrap_or(Err(UpstreamError::Timeout(time)));
        if let (
            Self::Keda(keda),
            Err(UpstreamError::Timeout(_) | UpstreamError::Connection { .. }),
        ) = (self, &response)
        {
            keda.reconnect();
        }
        response
    }
}

impl Upstream {
    /// Creates the upstream of a specification; keeps the previous one if its client is up to date.
    /// `token`: the file with the adapter's service account token.
    pub(super) async fn reload(
        spec: &UpstreamSpec,
        previous: Option<&Self>,
        reader: &PemReader,
        token: &Path,
        metrics: &Metrics,
    ) -> Self {
        if let Some(previous) = previous
            && *previous.spec == *spec
            && let Ok(client) = &previous.client
            && client.is_up_to_date(spec, reader).await
        {
            return previous.clone();
        }
        let client = UpstreamClient::open(spec, reader, token).await;
        if let Err(error) = &client {
            metrics.remove_circuit(&spec.name);
            let upstream = &spec.name;
            if previous.is_none_or(|previous| previous.client.as_ref().err() != Some(error)) {
                tracing::warn!(upstream, error, "cannot create the client of an upstream");
            }
        } else {
            metrics.set_circuit_open(&spec.name, false);
        }
        let last_responses = || {
            Cache::builder()
                .max_capacity(CAPACITY)
                .time_to_live(MAX_STALE)
                .eviction_policy(EvictionPolicy::lru())
                .build()
        };
        let same_address = previous.filter(|previous| previous.spec.uri() == spec.uri());
        Self {
            spec: Arc::new(spec.clone()),
            client,
            breaker: Arc::default(),
            responses: CoalescingCache::default(),
            last: same_address.map_or_else(last_responses, |previous| previous.last.clone()),
            metrics: metrics.clone(),
        }
    }

    /// Rejects a request that has passed this adapter before.
    pub(super) fn loop_detected(
        &self,
        route: &str,
        request: &ExternalMetricRequest,
        error: &str,
    ) -> StatusError {
        let name = &self.spec.name;
        self.metrics.forwarded(route, name, "loop", Duration::ZERO);
        StatusError::NotFound(format!(
            "the metric {} is forwarded to the provider {name}, but {error}",
            request.metric
        ))
    }

    /// Sends a request. Without a response in time, returns the last one if it is recent enough. The
    /// request goes on: its response is the last one for the next caller.
    pub(super) async fn forward(
        &self,
        route: &str,
        request: &ExternalMetricRequest,
        via: HeaderValue,
    ) -> Result<Vec<ExternalValue>, StatusError> {
        let began = Instant::now();
        let text = format!(
            "{}\n{}\n{}",
            request.namespace, request.metric, request.selector
        );
        let last = key(text.as_bytes());
        let shared = key(&[text.as_bytes(), b"\n", via.as_bytes()].concat());
        let (upstream, request_sent) = (self.clone(), request.clone());
        let exchange = async move { upstream.exchange(&request_sent, via, last).await };
        let response = self.responses.get(shared, &request.namespace, exchange);
        let response = match tokio::time::timeout(WAIT, response).await {
            Ok(response) => response.map(|(response, _)| response),
            Err(_) => Some(Err(UpstreamError::Timeout(WAIT))),
        };
        let (outcome, result) = self.result(response, &last);
        self.metrics
            .forwarded(route, &self.spec.name, outcome, began.elapsed());
        result
    }

    fn result(
        &self,
        response: Option<Response>,
        last: &Key,
    ) -> (&'static str, Result<Vec<ExternalValue>, StatusError>) {
        let name = &self.spec.name;
        let failure = match response {
            Some(Ok(values)) => return ("answered", Ok(values.to_vec())),
            Some(Err(UpstreamError::NotFound(message))) => {
                let error = StatusError::NotFound(format!("{message} (from {name})"));
                return ("not_found", Err(error));
            }
            Some(Err(UpstreamError::BadRequest(message))) => {
                let error = StatusError::BadRequest(format!("{message} (from {name})"));
                return ("failed", Err(error));
            }
            Some(Err(failure)) => failure.to_string(),
            None => "too many requests at once".to_owned(),
        };
        // With its original timestamps.
        let last = self.last.get(last);
        if let Some((values, _)) = last.filter(|(_, at)| at.elapsed() <= self.spec.max_stale) {
            return ("stale", Ok(values.to_vec()));
        }
        let text = format!("the provider {name} has no value: {failure}");
        ("failed", Err(StatusError::Unavailable(text)))
    }

    async fn exchange(
        &self,
        request: &ExternalMetricRequest,
        via: HeaderValue,
        last: Key,
    ) -> (Response, Duration) {
        let Ok(client) = &self.client else {
            return (Err(UpstreamError::NoClient), Duration::ZERO);
        };
        if let Err(error) = client.validate(request) {
            return (Err(error), Duration::ZERO);
        }
        if !self.breaker.lock().allows_request(Instant::now()) {
            return (Err(UpstreamError::CircuitOpen), Duration::ZERO);
        }
        let response = client.exchange(request, &via, self.spec.timeout).await;
        let (was_open, is_open) = {
            let mut breaker = self.breaker.lock();
            let was_open = breaker.is_open();
            match &response {
                Err(UpstreamError::Timeout(_)) => {
                    breaker.record_failure(Instant::now(), Some(key(request.namespace.as_bytes())));
                }
                Err(error) if !error.is_provider_alive() => {
                    breaker.record_failure(Instant::now(), None);
                }
                _ => breaker.record_success(),
            }
            (was_open, breaker.is_open())
        };
        self.metrics.set_circuit_open(&self.spec.name, is_open);
        match response {
            Ok(values) => {
                let values: Arc<[_]> = values.into();
                self.last
                    .insert(last, (Arc::clone(&values), Instant::now()));
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
                        "provider failed repeatedly; opening the circuit for some seconds"
                    );
                } else {
                    tracing::debug!(upstream, metric, reason, "provider has no value");
                }
                (Err(error), Duration::ZERO)
            }
        }
    }
}

const FAILURE_THRESHOLD: u32 = 5;
/// The pause before a probe.
const OPEN_FOR: Duration = Duration::from_secs(5);

/// Opens after several failures in a row. After a pause, one request probes the provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CircuitBreaker {
    failures: u32,
    late: Vec<Key>,
    open_until: Option<Instant>,
    is_probing: bool,
}

impl CircuitBreaker {
    /// Whether a request may be sent. Its result must be recorded.
    pub(super) fn allows_request(&mut self, now: Instant) -> bool {
        match self.open_until {
            None => true,
            Some(until) if now < until || self.is_probing => false,
            Some(_) => {
                self.is_probing = true;
                true
            }
        }
    }

    pub(super) fn record_success(&mut self) {
        *self = Self::default();
    }

    /// Records a failure. `late`: the namespace of a request that timed out. A namespace counts
    /// once in a row, so that slow requests of one tenant cannot open the circuit for others.
    pub(super) fn record_failure(&mut self, now: Instant, late: Option<Key>) {
        if late.is_none_or(|namespace| !self.late.contains(&namespace)) {
            self.failures = self.failures.saturating_add(1);
            self.late
                .extend(late.filter(|_| self.failures <= FAILURE_THRESHOLD));
        }
        if self.is_probing || self.failures >= FAILURE_THRESHOLD {
            self.open_until = Some(now + OPEN_FOR);
        }
        self.is_probing = false;
    }

    pub(super) fn is_open(&self) -> bool {
        self.open_until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_open_the_circuit_until_a_probe_succeeds() {
        let (mut breaker, start) = (CircuitBreaker::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for _ in 0..FAILURE_THRESHOLD - 1 {
            breaker.record_failure(at(0), None);
        }
        assert!(breaker.allows_request(at(0)));
        breaker.record_failure(at(0), None);
        assert!(
            !breaker.allows_request(at(0)) && !breaker.allows_request(at(4)) && breaker.is_open()
        );
        assert_eq!(
            (breaker.allows_request(at(5)), breaker.allows_request(at(5))),
            (true, false),
            "one tries"
        );
        breaker.record_failure(at(6), None);
        assert!(!breaker.allows_request(at(10)));
        assert!(breaker.allows_request(at(11)));
        breaker.record_success();
        assert!(breaker.allows_request(at(11)) && !breaker.is_open());
    }

    #[test]
    fn a_success_between_failures_keeps_the_circuit_closed() {
        let (mut breaker, now) = (CircuitBreaker::default(), Instant::now());
        for _ in 0..10 * FAILURE_THRESHOLD {
            breaker.record_failure(now, None);
            breaker.record_failure(now, None);
            breaker.record_success();
        }
        assert!(breaker.allows_request(now));
    }

    #[test]
    fn timeouts_of_a_namespace_count_once() {
        let (mut breaker, start) = (CircuitBreaker::default(), Instant::now());
        let namespace = |number: u8| Some([number; 32]);
        for number in (0..4).cycle().take(100) {
            breaker.record_failure(start, namespace(number));
        }
        assert!(breaker.allows_request(start) && !breaker.is_open());
        breaker.record_failure(start, namespace(4));
        assert!(!breaker.allows_request(start));
        assert!(breaker.allows_request(start + OPEN_FOR));
        breaker.record_failure(start + OPEN_FOR, namespace(0));
        assert!(
            !breaker.allows_request(start + OPEN_FOR),
            "the one that tries tries for all"
        );
    }
}

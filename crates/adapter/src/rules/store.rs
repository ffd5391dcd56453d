//! Puts queries to the store: few at once, and none for a moment when it has gone silent.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use sources::prometheus::{Connection, Exchange, InstantSample, Observer, Prometheus, PrometheusError};
use tokio::sync::Semaphore;

use super::answers::Failure;
use super::metrics::Metrics;

/// Queries at the same time.
const CONCURRENCY: usize = 32;
/// Less than those who ask wait, so that a silent store is noticed.
const PATIENCE: Duration = Duration::from_millis(1500);
/// After so many queries without any answer, one after the other, the store is taken to be silent.
const SILENT_AFTER: u32 = 3;
/// A silent store is asked again after this time. Until then, nobody waits for it.
const SILENT_FOR: Duration = Duration::from_secs(3);

/// The store, connected anew from time to time, so that tokens and certificates may be replaced.
pub(super) struct Store {
    connection: Connection,
    current: ArcSwapOption<Prometheus>,
    places: Semaphore,
    silence: Mutex<Silence>,
    metrics: Metrics,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Silence {
    failures: u32,
    until: Option<Instant>,
}

impl Silence {
    fn is_on(self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    fn after(self, was_silent: bool, now: Instant) -> Self {
        if !was_silent {
            return Self::default();
        }
        let failures = self.failures.saturating_add(1);
        Self { failures, until: (failures >= SILENT_AFTER).then(|| now + SILENT_FOR) }
    }
}

impl Store {
    pub(super) fn new(connection: Connection, metrics: Metrics) -> Self {
        let (current, silence) = (ArcSwapOption::empty(), Mutex::default());
        Self { connection, current, places: Semaphore::new(CONCURRENCY), silence, metrics }
    }

    /// A new connection, with the files as they are now.
    pub(super) async fn connect(&self) -> Result<Arc<Prometheus>, PrometheusError> {
        let metrics = self.metrics.clone();
        let observer: Observer = Arc::new(move |Exchange { code, duration }| metrics.exchanged(code, duration));
        let store = Arc::new(Prometheus::connect(&self.connection, observer).await?);
        self.current.store(Some(Arc::clone(&store)));
        Ok(store)
    }

    /// Asks for the current values of a query. Of the labels only `label` is kept where one is named.
    pub(super) fn ask(
        self: &Arc<Self>,
        query: String,
        label: Option<String>,
    ) -> impl Future<Output = Result<Vec<InstantSample>, Failure>> + Send + use<> {
        let store = Arc::clone(self);
        async move {
            let failure = |why: &str, is_timeout| Failure { why: why.to_owned(), is_timeout };
            if store.silence().is_on(Instant::now()) {
                return Err(failure("Prometheus does not answer", false));
            }
            let place = store.places.acquire().await;
            let _place = place.map_err(|_| failure("the adapter is ending", false))?;
            let Some(prometheus) = store.current.load_full() else {
                return Err(failure("there is no connection to Prometheus yet", false));
            };
            let answer = prometheus.query(&query, PATIENCE).await;
            store.heard(&answer);
            let mut samples = answer.map_err(|error| {
                tracing::debug!(%error, query, "a query failed");
                public(&error)
            })?;
            if let Some(label) = label {
                for sample in &mut samples {
                    sample.labels.retain(|name, _| *name == label);
                }
            }
            Ok(samples)
        }
    }

    fn silence(&self) -> Silence {
        *self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn heard<T>(&self, answer: &Result<T, PrometheusError>) {
        let was_silent = matches!(answer, Err(PrometheusError::Unreachable(_) | PrometheusError::Timeout(_)));
        let mut silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        *silence = silence.after(was_silent, Instant::now());
    }
}

/// What may be said to whoever asks: not where the store is, nor how it is reached.
fn public(error: &PrometheusError) -> Failure {
    let why = match error {
        PrometheusError::SetUp(_) => "the connection to Prometheus cannot be set up".to_owned(),
        PrometheusError::Unreachable(_) => "Prometheus cannot be reached".to_owned(),
        error => error.to_string(),
    };
    Failure { why, is_timeout: matches!(error, PrometheusError::Timeout(_)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_store_is_left_alone_for_a_moment() {
        let start = Instant::now();
        let mut silence = Silence::default();
        for (was_silent, is_on) in
            [(true, false), (true, false), (false, false), (true, false), (true, false), (true, true), (true, true)]
        {
            silence = silence.after(was_silent, start);
            assert_eq!(silence.is_on(start), is_on, "{silence:?}");
        }
        assert!(!silence.is_on(start + SILENT_FOR));
        assert!(silence.after(true, start).is_on(start), "one more failure is enough");
        assert!(!silence.after(false, start).is_on(start));
    }

    #[test]
    fn nobody_is_told_where_the_store_is() {
        let error = PrometheusError::Unreachable("tcp 10.1.2.3:9090".to_owned());
        assert_eq!(public(&error).why, "Prometheus cannot be reached");
        let error = PrometheusError::Refused { code: 400, message: "parse error".to_owned() };
        assert_eq!(public(&error).why, "Prometheus answers 400: parse error");
    }
}

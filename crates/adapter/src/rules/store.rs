//! Puts queries to the store: few at once, and none for a moment when it has gone silent.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use sources::prometheus::{Connection, Exchange, InstantSample, Observer, Prometheus, PrometheusError};
use tokio::sync::Semaphore;

use super::answers::Failure;
use super::metrics::Metrics;
use crate::answers::{Key, key};

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

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Silence {
    failures: u32,
    /// Queries among them whose answer did not come in time.
    late: Vec<Key>,
    until: Option<Instant>,
}

/// What was heard of a query.
#[derive(Debug, Clone, Copy)]
enum Heard {
    /// Anything at all.
    Answer,
    /// Nothing.
    Nothing,
    /// Nothing in time, of this one. It counts once: with other queries there may be no trouble.
    Late(Key),
}

impl Silence {
    fn is_on(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    fn hears(&mut self, heard: Heard, now: Instant) {
        match heard {
            Heard::Answer => return *self = Self::default(),
            Heard::Late(query) if self.late.contains(&query) => {}
            Heard::Nothing | Heard::Late(_) => self.failures = self.failures.saturating_add(1),
        }
        if let Heard::Late(query) = heard
            && self.late.len() < SILENT_AFTER as usize
        {
            self.late.push(query);
        }
        self.until = (self.failures >= SILENT_AFTER).then(|| now + SILENT_FOR);
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
            store.heard(&query, &answer);
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

    fn heard<T>(&self, query: &str, answer: &Result<T, PrometheusError>) {
        let heard = match answer {
            Err(PrometheusError::Unreachable(_)) => Heard::Nothing,
            Err(PrometheusError::Timeout(_)) => Heard::Late(key(query.as_bytes())),
            _ => Heard::Answer,
        };
        self.silence().hears(heard, Instant::now());
    }

    /// It is whole after every statement, so a panic elsewhere leaves nothing half-done.
    fn silence(&self) -> MutexGuard<'_, Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
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
        use Heard::{Answer, Nothing};
        let start = Instant::now();
        let mut silence = Silence::default();
        for (heard, is_on) in [
            (Nothing, false),
            (Nothing, false),
            (Answer, false),
            (Nothing, false),
            (Nothing, false),
            (Nothing, true),
            (Nothing, true),
        ] {
            silence.hears(heard, start);
            assert_eq!(silence.is_on(start), is_on, "{silence:?}");
        }
        assert!(!silence.is_on(start + SILENT_FOR));
        let later = start + SILENT_FOR;
        silence.hears(Nothing, later);
        assert!(silence.is_on(later), "one more failure is enough");
        silence.hears(Answer, later);
        assert!(!silence.is_on(later));
    }

    #[test]
    fn queries_that_are_always_late_count_once_each() {
        let (start, mut silence) = (Instant::now(), Silence::default());
        let late = |number: u8| Heard::Late([number; 32]);
        for number in (0..2).cycle().take(100) {
            silence.hears(late(number), start);
            assert!(!silence.is_on(start), "{silence:?}");
        }
        silence.hears(late(2), start);
        assert!(silence.is_on(start), "three of them are a silent store");
        let later = start + SILENT_FOR;
        silence.hears(late(0), later);
        assert!(silence.is_on(later), "which is not heard again yet");
    }

    #[test]
    fn nobody_is_told_where_the_store_is() {
        let error = PrometheusError::Unreachable("tcp 10.1.2.3:9090".to_owned());
        assert_eq!(public(&error).why, "Prometheus cannot be reached");
        let error = PrometheusError::Refused { code: 400, message: "parse error".to_owned() };
        assert_eq!(public(&error).why, "Prometheus answers 400: parse error");
    }
}

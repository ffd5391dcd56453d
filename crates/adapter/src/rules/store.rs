//! Sends queries to the store: few at once, each flow within its share, and none for a moment while
//! the store is silent.

use parking_lot::{Mutex, MutexGuard};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use sources::causes::with_causes;
use sources::prometheus::{
    Connection, Exchange, InstantSample, Observer, Prometheus, PrometheusError,
};

use super::answers::Failure;
use super::budget::TimeBudget;
use super::metrics::Metrics;
use crate::answers::{Key, key};
use crate::flow::{Flow, FlowLimiter, Permit};

/// Queries at the same time.
const CONCURRENCY: usize = 32;
/// Less than those who ask wait, so that a silent store is noticed.
const PATIENCE: Duration = Duration::from_millis(1500);
/// After this number of queries in a row without an answer the store may be silent.
const SILENT_AFTER: u32 = 3;
/// The query that any store answers at once. Late answers may be those of expensive queries alone,
/// so a late answer to this one decides whether the store is silent.
const PROBE: &str = "vector(1)";
/// The answer to a namespace whose earlier queries took more than its share of the store's time.
const OVER_BUDGET: &str = "queries of this namespace have used their share of Prometheus' time";
/// A silent store is asked again after this time. Until then, nobody waits for it.
const SILENT_FOR: Duration = Duration::from_secs(3);

/// The store, connected anew from time to time, so that tokens and certificates may be replaced.
pub(super) struct Store {
    connection: Connection,
    current: ArcSwapOption<Prometheus>,
    limiter: FlowLimiter,
    budget: TimeBudget,
    silence: Mutex<Silence>,
    metrics: Metrics,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Silence {
    failures: u32,
    /// Queries among them whose answer did not come in time.
    late: Vec<Key>,
    /// A probe is under way.
    is_probing: bool,
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

    /// Records the end of a query. Returns whether a probe is to decide if the store is silent,
    /// which ends with [`Silence::probed`].
    fn hears(&mut self, heard: Heard, now: Instant) -> bool {
        match heard {
            Heard::Answer => {
                *self = Self {
                    is_probing: self.is_probing,
                    ..Self::default()
                };
                return false;
            }
            Heard::Late(query) if self.late.contains(&query) => {}
            Heard::Nothing | Heard::Late(_) => self.failures = self.failures.saturating_add(1),
        }
        if let Heard::Late(query) = heard
            && self.late.len() < SILENT_AFTER as usize
        {
            self.late.push(query);
        }
        if self.failures < SILENT_AFTER {
            return false;
        }
        if let Heard::Late(_) = heard {
            return !std::mem::replace(&mut self.is_probing, true);
        }
        self.until = Some(now + SILENT_FOR);
        false
    }

    /// Records the end of a probe.
    fn probed(&mut self, has_answer: bool, now: Instant) {
        *self = if has_answer {
            Self::default()
        } else {
            Self {
                is_probing: false,
                until: Some(now + SILENT_FOR),
                ..std::mem::take(self)
            }
        };
    }
}

impl Store {
    pub(super) fn new(connection: Connection, metrics: Metrics) -> Self {
        let (current, silence) = (ArcSwapOption::empty(), Mutex::default());
        Self {
            connection,
            current,
            limiter: FlowLimiter::new(CONCURRENCY),
            budget: TimeBudget::default(),
            silence,
            metrics,
        }
    }

    /// A new connection, with the files as they are now.
    pub(super) async fn connect(&self) -> Result<Arc<Prometheus>, PrometheusError> {
        let metrics = self.metrics.clone();
        let observer: Observer =
            Arc::new(move |Exchange { code, duration }| metrics.exchanged(code, duration));
        let store = Arc::new(Prometheus::connect(&self.connection, observer).await?);
        self.current.store(Some(Arc::clone(&store)));
        Ok(store)
    }

    /// Asks for the current values of a query. Of the labels only `label` is kept where one is
    /// named.
    pub(super) fn ask(
        self: &Arc<Self>,
        query: String,
        label: Option<String>,
        flow: Flow,
    ) -> impl Future<Output = Result<Vec<InstantSample>, Failure>> + Send + use<> {
        let store = Arc::clone(self);
        async move {
            if store.silence().is_on(Instant::now()) {
                return Err(unavailable("Prometheus does not answer"));
            }
            let _permit = store.permit(&flow).await?;
            let Some(prometheus) = store.current.load_full() else {
                return Err(unavailable("there is no connection to Prometheus yet"));
            };
            let answer = {
                let _charge = store.budget.start(&flow);
                prometheus.query(&query, PATIENCE).await
            };
            store.heard(&query, &answer, prometheus);
            let mut samples = answer.map_err(|error| {
                tracing::debug!(error = with_causes(&error), query, "a query failed");
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

    /// A place for a query, once the flow has one and its budget allows it. A flow without a budget
    /// is refused after [`PATIENCE`] only, which paces clients that repeat requests at once.
    async fn permit(&self, flow: &Flow) -> Result<Permit, Failure> {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            let permit = self.limiter.acquire(flow).await;
            let permit = permit.ok_or_else(|| unavailable("the adapter is ending"))?;
            let now = tokio::time::Instant::now();
            let wait = self.budget.wait(flow, now);
            if wait.is_zero() {
                return Ok(permit);
            }
            drop(permit);
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                return Err(unavailable(OVER_BUDGET));
            }
            tokio::time::sleep(wait.min(left)).await;
        }
    }

    fn heard<T>(
        self: &Arc<Self>,
        query: &str,
        answer: &Result<T, PrometheusError>,
        prometheus: Arc<Prometheus>,
    ) {
        let heard = match answer {
            Err(PrometheusError::Unreachable(_)) => Heard::Nothing,
            Err(PrometheusError::Timeout(_)) => Heard::Late(key(query.as_bytes())),
            _ => Heard::Answer,
        };
        if self.silence().hears(heard, Instant::now()) {
            let store = Arc::clone(self);
            tokio::spawn(async move {
                let answer = prometheus.query(PROBE, PATIENCE).await;
                let has_answer = !matches!(
                    answer,
                    Err(PrometheusError::Unreachable(_) | PrometheusError::Timeout(_))
                );
                store.silence().probed(has_answer, Instant::now());
            });
        }
    }

    fn silence(&self) -> MutexGuard<'_, Silence> {
        self.silence.lock()
    }
}

fn unavailable(why: &str) -> Failure {
    Failure {
        why: why.to_owned(),
        is_timeout: false,
    }
}

/// The text of an error says neither where the store is nor what it answered; that is in the log.
fn public(error: &PrometheusError) -> Failure {
    // Expressions are made of an administrator's rules, not by callers.
    Failure {
        why: error.text_for_others(),
        is_timeout: matches!(error, PrometheusError::Timeout(_)),
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;

    use super::*;
    use crate::flow::PriorityLevel;

    #[tokio::test(start_paused = true)]
    async fn a_namespace_over_its_budget_is_refused_and_holds_no_place_meanwhile() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).expect("new names");
        let store = Arc::new(Store::new(Connection::default(), metrics));
        let flow = |namespace: &str| Flow {
            level: PriorityLevel::Namespaced,
            namespace: namespace.into(),
        };
        let now = tokio::time::Instant::now();
        store.budget.charge(&flow("slow"), PATIENCE * 4, now);
        let refused: Vec<_> = (0..100)
            .map(|_| {
                let (store, flow) = (Arc::clone(&store), flow("slow"));
                tokio::spawn(async move { store.permit(&flow).await.map(drop) })
            })
            .collect();
        tokio::task::yield_now().await;
        let others: Vec<_> = (0..CONCURRENCY)
            .filter_map(|number| store.limiter.try_acquire(&flow(&number.to_string())))
            .collect();
        assert_eq!(others.len(), CONCURRENCY / 2, "all places of the level");
        drop(others);
        for refused in refused {
            let failure = refused.await.expect("no panic").expect_err("no budget");
            assert_eq!(failure.why, OVER_BUDGET);
        }
        assert_eq!(now.elapsed(), PATIENCE);
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert!(store.permit(&flow("slow")).await.is_ok(), "it is paid");
    }

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
            assert!(!silence.hears(late(number), start), "{silence:?}");
        }
        assert!(
            silence.hears(late(2), start),
            "three of them: a probe decides"
        );
        assert!(
            !silence.hears(late(3), start) && !silence.is_on(start),
            "one probe at a time"
        );
        silence.probed(false, start);
        assert!(silence.is_on(start) && !silence.is_on(start + SILENT_FOR));
        assert!(
            silence.hears(late(4), start + SILENT_FOR),
            "one more late answer is enough for the next probe"
        );
    }

    #[test]
    fn expensive_queries_alone_are_no_silent_store() {
        let (start, mut silence) = (Instant::now(), Silence::default());
        for number in 0..100 {
            if silence.hears(Heard::Late([number; 32]), start) {
                silence.probed(true, start);
            }
            assert!(!silence.is_on(start), "{silence:?}");
        }
    }

    #[test]
    fn nobody_is_told_where_the_store_is() {
        let error = PrometheusError::Unreachable("tcp 10.1.2.3:9090".into());
        assert_eq!(public(&error).why, "Prometheus cannot be reached");
        let error = PrometheusError::Refused {
            code: 400,
            message: "parse error near x".into(),
        };
        assert_eq!(
            public(&error).why,
            "Prometheus refuses the query: HTTP status 400"
        );
        let error = PrometheusError::BadQuery {
            code: 400,
            message: "parse error near x".to_owned(),
        };
        assert_eq!(
            public(&error).why,
            "Prometheus refuses the query: HTTP status 400"
        );
    }
}

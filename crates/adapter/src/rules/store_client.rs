//! Queries to the store: a limited number in flight, fairly between flows, and none during an
//! outage.

use parking_lot::Mutex;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use sources::error_chain::with_causes;
use sources::prometheus::{
    ClusterCheck, Connection, Exchange, InstantSample, Observer, Prometheus, PrometheusError,
};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Metrics;
use super::query_cache::{QUERY_TIMEOUT, QueryFailure};
use super::query_time::QueryTimeLimiter;
use crate::flow_limiter::{Flow, FlowLimiter, Permit};
use delegated_auth::coalescing_cache::{Key, key};

const CONCURRENCY: usize = 32;
/// The time after which a query counts as a sign of an outage, although it goes on; shorter than the
/// timeout of a request, so that outages are detected.
const LATE_AFTER: Duration = Duration::from_millis(1500);
/// The number of failures in a row that may mean an outage.
const OUTAGE_AFTER: u32 = 3;
/// A query that every store answers at once. Queries that time out may be expensive ones, so this
/// one decides whether there is an outage.
const PROBE: &str = "vector(1)";
const NO_RESPONSE: &str = "Prometheus does not respond";
const OVER_BUDGET: &str = "queries of this namespace have used their share of Prometheus' time";
/// The pause during an outage, in which requests fail at once.
const OUTAGE_FOR: Duration = Duration::from_secs(3);

/// The store. Reconnects with each listing, so that tokens and certificates are reloaded.
pub(super) struct Store {
    connection: Connection,
    current: ArcSwapOption<Prometheus>,
    clusters: ClusterCheck,
    refusal: Mutex<Option<String>>,
    limiter: FlowLimiter,
    budget: QueryTimeLimiter,
    outage: Mutex<Outage>,
    /// Notified when an outage begins, which ends late queries: they may never get a response.
    outage_began: Notify,
    metrics: Metrics,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Outage {
    failures: u32,
    /// Queries among the failures that timed out.
    late: Vec<Key>,
    is_probing: bool,
    until: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum QueryOutcome {
    Response,
    NoResponse,
    /// A timeout of this query. It counts once, since a single query may be expensive.
    Late(Key),
}

impl Outage {
    fn is_on(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Records a query. Returns whether to send a probe, which ends with [`Outage::probed`].
    fn record(&mut self, outcome: QueryOutcome, now: Instant) -> bool {
        match outcome {
            QueryOutcome::Response => {
                *self = Self {
                    is_probing: self.is_probing,
                    ..Self::default()
                };
                return false;
            }
            QueryOutcome::Late(query) if self.late.contains(&query) => {}
            QueryOutcome::NoResponse | QueryOutcome::Late(_) => {
                self.failures = self.failures.saturating_add(1);
            }
        }
        if let QueryOutcome::Late(query) = outcome
            && self.late.len() < OUTAGE_AFTER as usize
        {
            self.late.push(query);
        }
        if self.failures < OUTAGE_AFTER {
            return false;
        }
        if let QueryOutcome::Late(_) = outcome {
            return !std::mem::replace(&mut self.is_probing, true);
        }
        self.until = Some(now + OUTAGE_FOR);
        false
    }

    fn probed(&mut self, has_response: bool, now: Instant) {
        *self = if has_response {
            Self::default()
        } else {
            Self {
                is_probing: false,
                until: Some(now + OUTAGE_FOR),
                ..std::mem::take(self)
            }
        };
    }
}

impl Store {
    pub(super) fn new(connection: Connection, metrics: Metrics) -> Self {
        let (current, outage) = (ArcSwapOption::empty(), Mutex::default());
        Self {
            connection,
            current,
            clusters: ClusterCheck::default(),
            refusal: Mutex::default(),
            limiter: FlowLimiter::new(CONCURRENCY),
            budget: QueryTimeLimiter::default(),
            outage,
            outage_began: Notify::new(),
            metrics,
        }
    }

    /// Connects with the current files. A store with several clusters is refused, and has no value
    /// from then on.
    pub(super) async fn connect(&self, now: Timestamp) -> Result<Arc<Prometheus>, PrometheusError> {
        let metrics = self.metrics.clone();
        let observer: Observer =
            Arc::new(move |Exchange { code, duration }| metrics.exchanged(code, duration));
        let store = Arc::new(Prometheus::connect(&self.connection, observer).await?);
        let checked = self.clusters.run(&store, now).await;
        *self.refusal.lock() = checked.as_ref().err().map(ToString::to_string);
        self.current
            .store(checked.is_ok().then(|| Arc::clone(&store)));
        checked.map(|()| store)
    }

    /// Queries current values. Keeps only `label` of their labels if it is given.
    pub(super) fn query(
        self: &Arc<Self>,
        query: String,
        label: Option<String>,
        flow: Flow,
    ) -> impl Future<Output = Result<Vec<InstantSample>, QueryFailure>> + Send + use<> {
        let store = Arc::clone(self);
        async move {
            if store.outage.lock().is_on(Instant::now()) {
                return Err(unavailable(NO_RESPONSE));
            }
            let _permit = store.permit(&flow).await?;
            let Some(prometheus) = store.current.load_full() else {
                let refusal = store.refusal.lock().clone();
                let why = refusal.as_deref();
                return Err(unavailable(
                    why.unwrap_or("not connected to Prometheus yet"),
                ));
            };
            let result = {
                let _charge = store.budget.start(&flow);
                store.run(&query, &prometheus).await
            };
            let result = result.ok_or_else(|| unavailable(NO_RESPONSE))?;
            let mut samples = result.map_err(|error| {
                tracing::debug!(
                    error = with_causes(&error),
                    query,
                    "a query of rules failed"
                );
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

    /// Runs a query. Returns `None` if it is late and an outage begins.
    async fn run(
        self: &Arc<Self>,
        query: &str,
        prometheus: &Arc<Prometheus>,
    ) -> Option<Result<Vec<InstantSample>, PrometheusError>> {
        let mut outage_began = pin!(self.outage_began.notified());
        let mut response = pin!(prometheus.query(query, QUERY_TIMEOUT));
        let result = if let Ok(result) = timeout(LATE_AFTER, &mut response).await {
            result
        } else {
            outage_began.as_mut().enable();
            self.record(QueryOutcome::Late(key(query.as_bytes())), prometheus);
            tokio::select! {
                result = response => result,
                () = outage_began => return None,
            }
        };
        self.record(
            match &result {
                Err(PrometheusError::Unreachable(_)) => QueryOutcome::NoResponse,
                Err(PrometheusError::Timeout(_)) => QueryOutcome::Late(key(query.as_bytes())),
                _ => QueryOutcome::Response,
            },
            prometheus,
        );
        Some(result)
    }

    /// A place for a query, once the flow has one and its budget allows it. A flow without a budget
    /// is refused after [`LATE_AFTER`] only, which paces clients that repeat requests at once.
    async fn permit(&self, flow: &Flow) -> Result<Permit, QueryFailure> {
        let until = tokio::time::Instant::now() + LATE_AFTER;
        loop {
            let permit = self.limiter.acquire(flow).await;
            let permit = permit.ok_or_else(|| unavailable("the adapter is shutting down"))?;
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

    fn record(self: &Arc<Self>, outcome: QueryOutcome, prometheus: &Arc<Prometheus>) {
        if self.outage.lock().record(outcome, Instant::now()) {
            let (store, prometheus) = (Arc::clone(self), Arc::clone(prometheus));
            tokio::spawn(async move {
                let result = prometheus.query(PROBE, LATE_AFTER).await;
                let has_response = !matches!(
                    result,
                    Err(PrometheusError::Unreachable(_) | PrometheusError::Timeout(_))
                );
                store.outage.lock().probed(has_response, Instant::now());
                store.end_late_queries();
            });
        }
        self.end_late_queries();
    }

    fn end_late_queries(&self) {
        if self.outage.lock().is_on(Instant::now()) {
            self.outage_began.notify_waiters();
        }
    }
}

fn unavailable(why: &str) -> QueryFailure {
    QueryFailure {
        message: why.to_owned(),
        is_timeout: false,
    }
}

/// Converts an error for callers, without the address and the response of the store.
fn public(error: &PrometheusError) -> QueryFailure {
    // Expressions contain rules of the administrator, not text of callers.
    QueryFailure {
        message: error.text_for_others(),
        is_timeout: matches!(error, PrometheusError::Timeout(_)),
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;
    use serde_json::json;

    use super::*;
    use crate::flow_limiter::PriorityLevel;

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
        store.budget.charge(&flow("slow"), LATE_AFTER * 4, now);
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
            assert_eq!(failure.message, OVER_BUDGET);
        }
        assert_eq!(now.elapsed(), LATE_AFTER);
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert!(store.permit(&flow("slow")).await.is_ok(), "it is paid");
    }

    /// A store whose queries take this time.
    fn slow_store(time: Duration) -> Arc<Store> {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).expect("new names");
        let store = Store::new(Connection::default(), metrics);
        let client = testing::api_server(move |_| async move {
            tokio::time::sleep(time).await;
            let result = json!([{"metric": {}, "value": [0, "7"]}]);
            let data = json!({"resultType": "vector", "result": result});
            (200, json!({"status": "success", "data": data}))
        });
        let connection = Connection::default();
        let prometheus = Prometheus::with_client(client, "", &connection, Arc::new(|_| {}));
        store.current.store(Some(Arc::new(prometheus)));
        Arc::new(store)
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_may_take_longer_than_a_request() {
        let store = slow_store(Duration::from_secs(3));
        let began = tokio::time::Instant::now();
        let samples = store.query("up".to_owned(), None, Flow::default()).await;
        assert_eq!(samples.expect("an answer")[0].value.to_string(), "7");
        assert_eq!(began.elapsed(), Duration::from_secs(3));
        assert_eq!(*store.outage.lock(), Outage::default());
    }

    #[tokio::test(start_paused = true)]
    async fn late_queries_end_when_an_outage_begins() {
        let store = slow_store(Duration::from_hours(1));
        let began = tokio::time::Instant::now();
        let queries = ["a", "b", "c"].map(|query| {
            let query = store.query(query.to_owned(), None, Flow::default());
            tokio::spawn(query)
        });
        for query in queries {
            let failure = query.await.expect("no panic").expect_err("no answer");
            assert_eq!(failure.message, NO_RESPONSE);
        }
        assert_eq!(began.elapsed(), 2 * LATE_AFTER, "the probe, too, is late");
    }

    #[test]
    fn an_outage_pauses_queries() {
        use QueryOutcome::{NoResponse, Response};
        let start = Instant::now();
        let mut outage = Outage::default();
        for (outcome, is_on) in [
            (NoResponse, false),
            (NoResponse, false),
            (Response, false),
            (NoResponse, false),
            (NoResponse, false),
            (NoResponse, true),
            (NoResponse, true),
        ] {
            outage.record(outcome, start);
            assert_eq!(outage.is_on(start), is_on, "{outage:?}");
        }
        assert!(!outage.is_on(start + OUTAGE_FOR));
        let later = start + OUTAGE_FOR;
        outage.record(NoResponse, later);
        assert!(outage.is_on(later), "one more failure is enough");
        outage.record(Response, later);
        assert!(!outage.is_on(later));
    }

    #[test]
    fn repeated_timeouts_of_a_query_count_once() {
        let (start, mut outage) = (Instant::now(), Outage::default());
        let late = |number: u8| QueryOutcome::Late([number; 32]);
        for number in (0..2).cycle().take(100) {
            assert!(!outage.record(late(number), start), "{outage:?}");
        }
        assert!(outage.record(late(2), start), "a probe decides");
        let is_second_probe = outage.record(late(3), start);
        assert!(!is_second_probe && !outage.is_on(start), "one at a time");
        outage.probed(false, start);
        assert!(outage.is_on(start) && !outage.is_on(start + OUTAGE_FOR));
        assert!(
            outage.record(late(4), start + OUTAGE_FOR),
            "one more late result is enough for the next probe"
        );
    }

    #[test]
    fn expensive_queries_alone_are_not_an_outage() {
        let (start, mut outage) = (Instant::now(), Outage::default());
        for number in 0..100 {
            if outage.record(QueryOutcome::Late([number; 32]), start) {
                outage.probed(true, start);
            }
            assert!(!outage.is_on(start), "{outage:?}");
        }
    }

    #[test]
    fn errors_do_not_contain_the_address_of_the_store() {
        let (code, text) = (400, "parse error near x");
        let refused = "Prometheus refuses the query: HTTP status 400";
        let (unreachable, message) = ("tcp 10.1.2.3:9090".into(), text.into());
        for (error, expected) in [
            (
                PrometheusError::Unreachable(unreachable),
                "Prometheus cannot be reached",
            ),
            (PrometheusError::Refused { code, message }, refused),
            (
                PrometheusError::BadQuery {
                    code,
                    message: text.to_owned(),
                },
                refused,
            ),
        ] {
            assert_eq!(public(&error).message, expected);
        }
    }
}

//! Tenants with slow, large or many queries, next to others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::condition::ConditionStatus;
use api::prediction::TimeSeriesPrediction;
use horizontal::predictions::{
    Excess, Expression, KnownRules, MemoryLimits, PredictionResult, Query, QueryAccess, QueryScope,
    ReadIntervals, ReadRange,
};
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use view::{ObjectKey, Stripped};

use super::*;

const DAY: i64 = 86_400;
/// Midnight.
const START: i64 = 1_767_225_600;
const INTERVALS: ReadIntervals = ReadIntervals {
    read_seconds: 300,
    refit_seconds: 12 * 3600,
};
const LIMITS: MemoryLimits = MemoryLimits {
    namespace_bytes: 64 << 20,
    total_bytes: 256 << 20,
};
/// Timeout of a Prometheus query.
const LONGEST: Duration = Duration::from_secs(65);

/// An object with a metric for each expression.
fn prediction(
    namespace: &str,
    name: &str,
    expressions: &[String],
) -> Stripped<TimeSeriesPrediction> {
    let metric = |(number, expression): (usize, &String)| -> Value {
        json!({
            "resourceIdentifier": format!("m-{number}"), "type": "ExpressionQuery",
            "expressionQuery": {"expression": expression},
            "algorithm": {"algorithmType": "dsp", "dsp": {"sampleInterval": "60s"}},
        })
    };
    let object = json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}/{name}"), "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "predictionWindowSeconds": 3600,
            "predictionMetrics": expressions.iter().enumerate().map(metric).collect::<Vec<_>>(),
        },
    });
    Stripped {
        key: ObjectKey::new(namespace, name),
        object: api::prediction::parse(object).expect("an object"),
    }
}

fn expressions(text: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{text} + {number}"))
        .collect()
}

/// All points of a span.
fn answer(range: ReadRange) -> Samples {
    let step = i64::from(range.step);
    let seconds = (0..=(range.last - range.first) / step).map(|number| range.first + number * step);
    let samples = seconds
        .map(|second| (second, 10.0 + (second % DAY) as f64 / DAY as f64))
        .collect();
    Samples::from([(std::collections::BTreeMap::new(), samples)])
}

/// Counts itself while it exists.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A store in which a point of an expression with `slow` takes 50 s, one with `silent` has no
/// response, and others respond at once.
async fn ask(request: ReadRequest, open: Open) -> Result<Samples, ReadFailure> {
    let Query::Expression(Expression { text, .. }) = &request.query else {
        panic!("{request:?}")
    };
    let points = (request.range.last - request.range.first) / i64::from(request.range.step) + 1;
    let lasts = match text.as_str() {
        text if text.contains("slow") => {
            Duration::from_secs(50) * u32::try_from(points).expect("a few")
        }
        text if text.contains("silent") => Duration::MAX,
        _ => Duration::from_millis(10),
    };
    let answered = timeout(LONGEST, sleep(lasts)).await;
    drop(open);
    answered.map(|()| answer(request.range)).map_err(|_| {
        let failure = ReadFailure::refused("Prometheus did not answer".to_owned());
        ReadFailure {
            excess: Some(Excess::Time),
            ..failure
        }
    })
}

struct Fixture {
    view: watch::Sender<View>,
    results: watch::Receiver<Option<Results>>,
    /// Reads in progress.
    open: Arc<AtomicUsize>,
}

fn access() -> QueryAccess {
    QueryAccess {
        scope: QueryScope::Cluster,
        namespace_label: "namespace".to_owned(),
        rules: KnownRules::Absent,
    }
}

impl Fixture {
    /// Runs a collector over these objects, at the time of the paused clock.
    fn start(predictions: Vec<Stripped<TimeSeriesPrediction>>) -> Self {
        let (view, horizontal) = watch::channel(View::default());
        let (store, results) = watch::channel(None);
        let open = Arc::new(AtomicUsize::new(0));
        let fixture = Self {
            view,
            results,
            open: Arc::clone(&open),
        };
        fixture.set(predictions);
        let metrics = ForecastMetrics::register(&Registry::new()).expect("valid names");
        let collector = RunningCollector {
            horizontal,
            rules: None,
            predictions: PredictionSet::new(
                "default".to_owned(),
                INTERVALS,
                LIMITS,
                true,
                access(),
            ),
            slots: QuerySlots::new(10),
            rounds: None,
            fits: FitPool::new(FitPool::default_size(), metrics.clone()),
            store,
            metrics,
            requests: JoinSet::new(),
            in_progress: HashMap::new(),
        };
        let begun = Instant::now();
        let clock = move || {
            let later = i64::try_from(begun.elapsed().as_secs()).expect("in range");
            Timestamp::from_second(START + later).expect("in range")
        };
        tokio::spawn(collector.run(move |request| ask(request, Open::new(&open)), clock));
        fixture
    }

    fn set(&self, predictions: Vec<Stripped<TimeSeriesPrediction>>) {
        self.view.send_modify(|view| {
            view.predictions
                .reset(predictions.into_iter().map(Arc::new).collect());
        });
    }

    fn forecast(&self, uid: &str) -> Option<Arc<PredictionResult>> {
        let result = self.results.borrow().as_ref()?.get(uid)?.clone();
        result
            .metrics
            .iter()
            .all(|metric| metric.forecasts.is_some())
            .then_some(result)
    }

    /// The time until all these objects are forecast.
    async fn forecast_within(&self, uids: &[String], limit: Duration) {
        let mut results = self.results.clone();
        let all = async {
            while let Some(missing) = uids.iter().find(|uid| self.forecast(uid).is_none()) {
                results
                    .changed()
                    .await
                    .unwrap_or_else(|_| panic!("{missing} has no forecast"));
            }
        };
        let ended = timeout(limit, all).await;
        let missing = uids.iter().filter(|uid| self.forecast(uid).is_none());
        let (missing, all) = (missing.count(), uids.len());
        assert!(ended.is_ok(), "{missing} of {all} without a forecast");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_expression_of_one_tenant_delays_no_other_and_ends_with_its_object() {
    let slow = || prediction("greedy", "slow", &expressions("slow", 100));
    let quick = || {
        (0..30).map(|number| prediction(&format!("n-{number}"), "web", &expressions("quick", 3)))
    };
    let fixture = Fixture::start(std::iter::once(slow()).chain(quick()).collect());
    let uids: Vec<_> = (0..30).map(|number| format!("n-{number}/web")).collect();
    fixture.forecast_within(&uids, Duration::from_mins(1)).await;
    // The reads of one tenant use half of the slots.
    assert_eq!(fixture.open.load(Ordering::Relaxed), 5);
    sleep(Duration::from_mins(30)).await;
    assert!(fixture.open.load(Ordering::Relaxed) <= 5);
    fixture.set(quick().collect());
    sleep(2 * TICK).await;
    assert_eq!(
        fixture.open.load(Ordering::Relaxed),
        0,
        "deletion ends the questions"
    );
}

#[tokio::test(start_paused = true)]
async fn many_slow_tenants_leave_room_for_one_that_comes_later() {
    let slow = (0..20).map(|number| {
        prediction(
            &format!("greedy-{number}"),
            "slow",
            &expressions("slow", 100),
        )
    });
    let slow: Vec<_> = slow.collect();
    let fixture = Fixture::start(slow.clone());
    sleep(Duration::from_mins(5)).await;
    let web = prediction("shop", "web", &expressions("quick", 20));
    fixture.set(slow.into_iter().chain([web]).collect());
    // One slot becomes free within the duration of a query, and stays with the namespace.
    fixture
        .forecast_within(&["shop/web".to_owned()], LONGEST + Duration::from_secs(10))
        .await;
}

#[tokio::test(start_paused = true)]
async fn unanswered_reads_do_not_affect_other_metrics() {
    let silent = prediction("shop", "silent", &expressions("silent", 3));
    let fixture = Fixture::start(vec![
        silent,
        prediction("shop", "web", &expressions("quick", 10)),
    ]);
    fixture
        .forecast_within(&["shop/web".to_owned()], Duration::from_mins(1))
        .await;
    sleep(Duration::from_mins(10)).await;
    let result = fixture.forecast("shop/web").expect("it is forecast");
    assert_eq!(result.history().0, ConditionStatus::True);
    let silent = fixture
        .results
        .borrow()
        .as_ref()
        .and_then(|all| all.get("shop/silent").cloned())
        .expect("it is known");
    assert_eq!(silent.history().0, ConditionStatus::False);
}

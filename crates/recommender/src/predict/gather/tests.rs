//! Tenants whose questions are slow, large or many, beside others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::condition::ConditionStatus;
use api::prediction::TimeSeriesPredictionStatus;
use prometheus::Registry;
use serde_json::{Value, json};
use sources::prometheus::Excess;
use tokio::time::{sleep, timeout};
use view::{Namespace, ObjectKey, Stripped};

use super::objects::Synced;
use super::*;
use crate::ehpa::rules::Rules;
use crate::predict::QueryScope;
use crate::predict::outlook::Outlook;
use crate::predict::query::{Expression, Query};
use crate::predict::track::Span;

const DAY: i64 = 86_400;
/// Midnight.
const START: i64 = 1_767_225_600;
const PACE: Pace = Pace {
    read_seconds: 300,
    refit_seconds: 12 * 3600,
};
const LIMITS: MemoryLimits = MemoryLimits {
    namespace_bytes: 64 << 20,
    total_bytes: 256 << 20,
};
/// As of a question to Prometheus.
const LONGEST: Duration = Duration::from_secs(65);

/// An object with a metric for each expression.
fn prediction(
    namespace: &str,
    name: &str,
    created: &str,
    expressions: &[String],
) -> Stripped<api::prediction::TimeSeriesPrediction> {
    let metric = |(number, expression): (usize, &String)| -> Value {
        json!({
            "resourceIdentifier": format!("m-{number}"), "type": "ExpressionQuery",
            "expressionQuery": {"expression": expression},
            "algorithm": {"algorithmType": "dsp", "dsp": {"sampleInterval": "60s"}},
        })
    };
    let object = json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}/{name}"), "creationTimestamp": created},
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

const CREATED: &str = "2026-01-01T00:00:00Z";

/// All points of a span.
fn answer(span: Span) -> Found {
    let step = i64::from(span.step);
    let seconds = (0..=(span.last - span.first) / step).map(|number| span.first + number * step);
    let samples = seconds
        .map(|second| (second, 10.0 + (second % DAY) as f64 / DAY as f64))
        .collect();
    Found::from([(std::collections::BTreeMap::new(), samples)])
}

/// Counts itself while it is there.
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
/// answer, and all others are answered at once.
async fn ask(question: Question, open: Open) -> Result<Found, Failure> {
    let Query::Expression(Expression { text, .. }) = &question.query else {
        panic!("{question:?}")
    };
    let points = (question.span.last - question.span.first) / i64::from(question.span.step) + 1;
    let lasts = match text.as_str() {
        text if text.contains("slow") => {
            Duration::from_secs(50) * u32::try_from(points).expect("a few")
        }
        text if text.contains("silent") => Duration::MAX,
        _ => Duration::from_millis(10),
    };
    let answered = timeout(LONGEST, sleep(lasts)).await;
    drop(open);
    answered.map(|()| answer(question.span)).map_err(|_| {
        let failure = Failure::refused("Prometheus did not answer".to_owned());
        Failure {
            excess: Some(Excess::Time),
            ..failure
        }
    })
}

struct Fixture {
    view: watch::Sender<View>,
    book: Book,
    /// Questions without an answer.
    open: Arc<AtomicUsize>,
}

fn access() -> QueryAccess {
    QueryAccess {
        scope: QueryScope::Cluster,
        namespace_label: "namespace".to_owned(),
        rules: None,
    }
}

impl Fixture {
    /// Runs a collector over these objects, at the time of the paused clock.
    fn start(objects: Vec<Stripped<api::prediction::TimeSeriesPrediction>>) -> Self {
        let (view, horizontal) = watch::channel(View::default());
        let (book, open) = (Book::default(), Arc::new(AtomicUsize::new(0)));
        let fixture = Self {
            view,
            book: book.clone(),
            open: Arc::clone(&open),
        };
        fixture.set(objects);
        let metrics = Metrics::register(&Registry::new(), Vec::new()).expect("valid names");
        let collector = Collector {
            horizontal,
            objects: Objects::new("default".to_owned(), PACE, LIMITS, true, access()),
            shares: Shares::new(10),
            rounds: None,
            studies: Studies::new(Studies::places(), metrics.forecasts.clone()),
            book,
            metrics,
            questions: JoinSet::new(),
            asked: HashMap::new(),
        };
        let begun = Instant::now();
        let clock = move || {
            let later = i64::try_from(begun.elapsed().as_secs()).expect("in range");
            Timestamp::from_second(START + later).expect("in range")
        };
        tokio::spawn(collector.run(move |question| ask(question, Open::new(&open)), clock));
        fixture
    }

    /// Makes these the only objects.
    fn set(&self, objects: Vec<Stripped<api::prediction::TimeSeriesPrediction>>) {
        self.view.send_modify(|view| {
            view.predictions
                .reset(objects.into_iter().map(Arc::new).collect());
        });
    }

    fn forecast(&self, uid: &str) -> Option<Arc<Outlook>> {
        let outlook = self.book.all()?.remove(uid)?;
        outlook
            .metrics
            .iter()
            .all(|metric| metric.made.is_some())
            .then_some(outlook)
    }

    /// The time until all these objects are forecast.
    async fn forecast_within(&self, uids: &[String], limit: Duration) {
        let mut revisions = self.book.revisions();
        let all = async {
            while let Some(missing) = uids.iter().find(|uid| self.forecast(uid).is_none()) {
                revisions
                    .changed()
                    .await
                    .unwrap_or_else(|_| panic!("{missing} has no forecast"));
            }
        };
        let missing = || {
            uids.iter()
                .filter(|uid| self.forecast(uid).is_none())
                .count()
        };
        assert!(
            timeout(limit, all).await.is_ok(),
            "{} of {} without a forecast",
            missing(),
            uids.len()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_expression_of_one_tenant_delays_no_other_and_ends_with_its_object() {
    let slow = || prediction("greedy", "slow", CREATED, &expressions("slow", 100));
    let quick = || {
        (0..30).map(|number| {
            prediction(
                &format!("n-{number}"),
                "web",
                CREATED,
                &expressions("quick", 3),
            )
        })
    };
    let fixture = Fixture::start(std::iter::once(slow()).chain(quick()).collect());
    let uids: Vec<_> = (0..30).map(|number| format!("n-{number}/web")).collect();
    fixture.forecast_within(&uids, Duration::from_mins(1)).await;
    // Those of one tenant take half of the places for as long as they last.
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
            CREATED,
            &expressions("slow", 100),
        )
    });
    let slow: Vec<_> = slow.collect();
    let fixture = Fixture::start(slow.clone());
    sleep(Duration::from_mins(5)).await;
    let web = prediction("shop", "web", CREATED, &expressions("quick", 20));
    fixture.set(slow.into_iter().chain([web]).collect());
    // One place becomes free within the time of a question; then it is kept.
    fixture
        .forecast_within(&["shop/web".to_owned()], LONGEST + Duration::from_secs(10))
        .await;
}

#[tokio::test(start_paused = true)]
async fn metrics_without_an_answer_say_nothing_of_others() {
    let silent = prediction("shop", "silent", CREATED, &expressions("silent", 3));
    let fixture = Fixture::start(vec![
        silent,
        prediction("shop", "web", CREATED, &expressions("quick", 10)),
    ]);
    fixture
        .forecast_within(&["shop/web".to_owned()], Duration::from_mins(1))
        .await;
    sleep(Duration::from_mins(10)).await;
    let outlook = fixture.forecast("shop/web").expect("it is forecast");
    assert_eq!(outlook.history().0, ConditionStatus::True);
    let silent = fixture
        .book
        .all()
        .and_then(|mut all| all.remove("shop/silent"))
        .expect("it is known");
    assert_eq!(silent.history().0, ConditionStatus::False);
}

/// Reads all histories at once.
fn read_all(objects: &mut Objects, now: Timestamp) {
    let mut shares = Shares::new(1);
    while let Some(question) = objects.ask(&mut shares, now) {
        shares.give_back(&question.namespace, Duration::ZERO, now.as_second());
        objects.answer(
            &question.metric,
            Ok(answer(question.span)),
            Duration::ZERO,
            now,
        );
    }
}

#[test]
fn a_failure_is_a_change_when_it_begins_when_its_reason_changes_and_when_it_ends() {
    let now = Timestamp::from_second(START).expect("in range");
    let mut objects = Objects::new("default".to_owned(), PACE, LIMITS, true, access());
    let mut view = View::default();
    view.predictions.reset(vec![Arc::new(prediction(
        "shop",
        "web",
        CREATED,
        &expressions("quick", 1),
    ))]);
    objects.sync(&view);
    objects.limit(now);
    let mut shares = Shares::new(1);
    let answers = [
        ("", false),
        ("away", true),
        ("away", false),
        ("late", true),
        ("", true),
        ("", false),
        ("late", true),
    ];
    for (number, (why, is_change)) in answers.into_iter().enumerate() {
        let now = Timestamp::from_second(START + 600 * i64::try_from(number).expect("a few"))
            .expect("in range");
        let question = objects.ask(&mut shares, now).expect("it is due");
        shares.give_back(&question.namespace, Duration::ZERO, now.as_second());
        let failure = Failure {
            details: "connection refused".to_owned(),
            ..Failure::refused(why.to_owned())
        };
        let failure = (!why.is_empty()).then_some(failure);
        let answer = failure
            .clone()
            .map_or_else(|| Ok(answer(question.span)), Err);
        let change = objects.answer(&question.metric, answer, Duration::ZERO, now);
        let prediction = ObjectKey::new("shop", "web");
        let expected = HistoryChange {
            prediction,
            metric: "m-0".to_owned(),
            failure,
        };
        assert_eq!(change, is_change.then_some(expected), "{number}");
    }
}

/// Checks what a look at the objects of a view finds.
fn check_sync(objects: &mut Objects, view: &View, is_changed: bool, derived: usize) {
    assert_eq!(
        objects.sync(view),
        Synced {
            is_changed,
            derived
        }
    );
}

#[test]
fn a_change_of_one_object_costs_one_object() {
    let (tell, told) = watch::channel(Some(Arc::new(Rules::default())));
    let access = QueryAccess {
        scope: QueryScope::Namespace,
        rules: Some(told),
        ..access()
    };
    let mut objects = Objects::new("default".to_owned(), PACE, LIMITS, true, access);
    let mut view = View::default();
    let object = |namespace: &str, name: &str, count| {
        prediction(namespace, name, CREATED, &expressions("quick", count))
    };
    let all = [
        object("shop", "a", 1),
        object("shop", "b", 1),
        object("bank", "c", 1),
    ];
    view.predictions
        .reset(all.iter().cloned().map(Arc::new).collect());
    check_sync(&mut objects, &view, true, 3);
    view.predictions
        .reset(all.iter().cloned().map(Arc::new).collect());
    check_sync(&mut objects, &view, false, 0);

    let mut written = all[0].clone();
    written.object.status = Some(TimeSeriesPredictionStatus::default());
    view.predictions.apply(Arc::new(written));
    check_sync(&mut objects, &view, false, 1);
    view.predictions.apply(Arc::new(object("shop", "b", 2)));
    check_sync(&mut objects, &view, true, 1);
    let mut other = object("bank", "c", 1);
    other.object.metadata.annotations =
        Some([("plimsoll.dev/recommender".to_owned(), "other".to_owned())].into());
    view.predictions.apply(Arc::new(other));
    check_sync(&mut objects, &view, true, 0);

    let labels = std::collections::BTreeMap::from([(
        "plimsoll.dev/prediction-query-scope".to_owned(),
        "cluster".to_owned(),
    )]);
    let annotations = std::collections::BTreeMap::new();
    view.namespaces.apply(Arc::new(Namespace {
        name: "shop".to_owned(),
        labels: labels.into(),
        annotations,
    }));
    check_sync(&mut objects, &view, true, 2);
    tell.send_replace(Some(Arc::new(Rules::default())));
    check_sync(&mut objects, &view, false, 2);
    check_sync(&mut objects, &view, false, 0);
}

#[test]
fn a_refused_metric_waits_until_there_is_clearly_room() {
    let now = Timestamp::from_second(START).expect("in range");
    // Ten metrics of our own method, of which no history is read yet.
    let limits = MemoryLimits {
        namespace_bytes: 1 << 20,
        total_bytes: 4 << 20,
    };
    let mut objects = Objects::new("default".to_owned(), PACE, limits, true, access());
    let mut view = View::default();
    let web = prediction(
        "shop",
        "web",
        "2026-01-02T00:00:00Z",
        &expressions("quick", 8),
    );
    let old = |count| {
        Arc::new(prediction(
            "shop",
            "old",
            CREATED,
            &expressions("quick", count),
        ))
    };
    let mut refused = Vec::new();
    // The number of metrics of the older object.
    for (round, count) in [0, 3, 2, 3, 2, 1, 0].into_iter().enumerate() {
        let mut written = web.clone();
        let mut status = TimeSeriesPredictionStatus::default();
        api::condition::set(
            &mut status.conditions,
            "Ready",
            ConditionStatus::False,
            "Any",
            &round.to_string(),
            now,
        );
        written.object.status = Some(status);
        view.predictions.reset(vec![old(count), Arc::new(written)]);
        objects.sync(&view);
        refused.push(objects.limit(now));
    }
    assert_eq!(refused, [0, 1, 1, 1, 1, 1, 0]);
}

#[test]
fn texts_of_metrics_count_and_those_of_refused_ones_are_not_kept() {
    let now = Timestamp::from_second(START).expect("in range");
    let long = expressions(&format!("quick + {}", "x".repeat(7900)), 100);
    for (expressions, most, admitted) in [
        (long, 512 << 10, 1..6),
        (vec![String::new(); 3000], 64 << 10, 100..2000),
    ] {
        let limits = MemoryLimits {
            namespace_bytes: most,
            total_bytes: 4 << 20,
        };
        let mut objects = Objects::new("default".to_owned(), PACE, limits, true, access());
        let mut view = View::default();
        view.predictions.reset(vec![Arc::new(prediction(
            "greedy",
            "web",
            CREATED,
            &expressions,
        ))]);
        objects.sync(&view);
        for _ in 0..2 {
            let kept = expressions.len() - objects.limit(now);
            let taken: usize = objects.tracks().map(|track| track.bytes()).sum();
            assert!(
                admitted.contains(&kept) && taken <= most,
                "{kept} metrics in {taken} bytes"
            );
        }
    }
}

#[test]
fn what_is_too_much_for_a_namespace_is_refused_and_said_and_others_are_forecast() {
    let now = Timestamp::from_second(START).expect("in range");
    let limits = MemoryLimits {
        namespace_bytes: 1 << 20,
        total_bytes: 4 << 20,
    };
    let mut objects = Objects::new("default".to_owned(), PACE, limits, true, access());
    let mut view = View::default();
    let old = prediction("greedy", "old", CREATED, &expressions("quick", 2));
    let new = prediction(
        "greedy",
        "new",
        "2026-01-02T00:00:00Z",
        &expressions("quick", 100),
    );
    let web = prediction("shop", "web", CREATED, &expressions("quick", 2));
    let wholes = || [&old, &web].map(|whole| Arc::new(whole.clone())).to_vec();
    view.predictions.reset(
        wholes()
            .into_iter()
            .chain([Arc::new(new.clone())])
            .collect(),
    );
    objects.sync(&view);
    for _ in 0..3 {
        let refused = objects.limit(now);
        assert!((85..100).contains(&refused), "{refused} refused");
        read_all(&mut objects, now);
    }
    let taken: usize = objects.tracks().map(|track| track.bytes()).sum();
    assert!(taken < 2 << 20, "{taken} bytes");
    let outlooks = objects.news();
    let outlook = |uid: &str| {
        outlooks
            .iter()
            .find(|outlook| outlook.job.uid == uid)
            .expect("it is there")
    };
    for uid in ["greedy/old", "shop/web"] {
        assert_eq!(outlook(uid).history().0, ConditionStatus::True, "{uid}");
    }
    let (status, reason, message) = outlook("greedy/new").history();
    assert_eq!(
        (status, reason),
        (ConditionStatus::False, "MemoryLimitReached")
    );
    assert!(
        message.contains("--prediction-namespace-memory-limit allows, 1 MiB"),
        "{message}"
    );
    let metric = outlook("greedy/new")
        .forecast(None, now)
        .metrics
        .pop()
        .expect("a metric");
    assert!(
        !metric.is_ready && metric.reason.contains("memory"),
        "{}",
        metric.reason
    );

    // With room again they are read again.
    let small = prediction(
        "greedy",
        "new",
        "2026-01-02T00:00:00Z",
        &expressions("quick", 100)[95..],
    );
    view.predictions
        .reset(wholes().into_iter().chain([Arc::new(small)]).collect());
    objects.sync(&view);
    assert_eq!(objects.limit(now), 0);
    read_all(&mut objects, now);
    let outlooks = objects.news();
    let outlook = outlooks
        .iter()
        .find(|outlook| outlook.job.uid == "greedy/new")
        .expect("it is there");
    assert_eq!(outlook.history().0, ConditionStatus::True);
}

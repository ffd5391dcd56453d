//! Changes of objects, failures to read histories, and memory limits.

use std::sync::Arc;
use std::time::Duration;

use api::prediction::TimeSeriesPrediction;
use serde_json::{Value, json};
use view::{Namespace, Stripped, View};

use super::super::access::{KnownRules, QueryAccess, QueryScope};
use super::super::prediction_set::{HistoryChange, PredictionSet, SyncResult};
use super::super::query_slots::QuerySlots;
use super::*;
use crate::ehpa::Rules;
use crate::predictions::ReadFailure;
use crate::predictions::metric_entry::MemoryLimits;

const LIMITS: MemoryLimits = MemoryLimits {
    namespace_bytes: 64 << 20,
    total_bytes: 256 << 20,
};

/// An object with a metric for each expression.
fn prediction(
    namespace: &str,
    name: &str,
    created: &str,
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

/// An object with a number of short expressions.
fn quick(
    namespace: &str,
    name: &str,
    created: &str,
    count: usize,
) -> Stripped<TimeSeriesPrediction> {
    prediction(namespace, name, created, &expressions("quick", count))
}

fn shared(objects: &[&Stripped<TimeSeriesPrediction>]) -> Vec<Arc<Stripped<TimeSeriesPrediction>>> {
    objects
        .iter()
        .map(|object| Arc::new((*object).clone()))
        .collect()
}

fn predictions(limits: MemoryLimits, access: QueryAccess) -> PredictionSet {
    PredictionSet::new("default".to_owned(), INTERVALS, limits, true, access)
}

fn limits(namespace_bytes: usize) -> MemoryLimits {
    MemoryLimits {
        namespace_bytes,
        total_bytes: 4 << 20,
    }
}

fn used_bytes(predictions: &mut PredictionSet) -> usize {
    predictions
        .pipelines()
        .map(|pipeline| pipeline.bytes())
        .sum()
}

const CREATED: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-02T00:00:00Z";

fn points(range: ReadRange) -> Samples {
    answer(range, i64::MIN)
}

fn access() -> QueryAccess {
    QueryAccess {
        scope: QueryScope::Cluster,
        namespace_label: "namespace".to_owned(),
        rules: KnownRules::Absent,
    }
}

fn read_all(predictions: &mut PredictionSet, now: Timestamp) {
    let mut slots = QuerySlots::new(1);
    while let Some(request) = predictions.next_request(&mut slots, now) {
        slots.release(&request.namespace, Duration::ZERO, now.as_second());
        let answer = Ok(points(request.range));
        predictions.record(&request.metric, answer, Duration::ZERO, now);
    }
}

#[test]
fn a_failure_is_a_change_when_it_begins_when_its_reason_changes_and_when_it_ends() {
    let mut predictions = predictions(LIMITS, access());
    let mut view = View::default();
    view.predictions
        .reset(shared(&[&quick("shop", "web", CREATED, 1)]));
    predictions.sync(&view);
    predictions.limit(at(START));
    let mut slots = QuerySlots::new(1);
    let answers = [
        ("", false),
        ("away", true),
        ("away", false),
        ("late", true),
        ("", true),
        ("", false),
        ("late", true),
    ];
    for (number, (why, is_change)) in (0..).zip(answers) {
        let now = at(START + 600 * number);
        let request = predictions.next_request(&mut slots, now);
        let request = request.expect("it is due");
        slots.release(&request.namespace, Duration::ZERO, now.as_second());
        let failure = ReadFailure {
            details: "connection refused".to_owned(),
            ..ReadFailure::refused(why.to_owned())
        };
        let failure = (!why.is_empty()).then_some(failure);
        let answer = match &failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(points(request.range)),
        };
        let change = predictions.record(&request.metric, answer, Duration::ZERO, now);
        let expected = HistoryChange {
            prediction: ObjectKey::new("shop", "web"),
            metric: "m-0".to_owned(),
            failure,
        };
        assert_eq!(change, is_change.then_some(expected), "{number}");
    }
}

fn check_sync(predictions: &mut PredictionSet, view: &View, is_changed: bool, derived: usize) {
    let expected = SyncResult {
        is_changed,
        derived,
    };
    assert_eq!(predictions.sync(view), expected);
}

#[test]
fn a_change_of_one_object_costs_one_object() {
    let access = QueryAccess {
        scope: QueryScope::Namespace,
        rules: KnownRules::Read(Arc::default()),
        ..access()
    };
    let mut predictions = predictions(LIMITS, access);
    let mut view = View::default();
    let object = |namespace: &str, name: &str, count| quick(namespace, name, CREATED, count);
    let all = [
        object("shop", "a", 1),
        object("shop", "b", 1),
        object("bank", "c", 1),
    ];
    view.predictions.reset(shared(&all.each_ref()));
    check_sync(&mut predictions, &view, true, 3);
    view.predictions.reset(shared(&all.each_ref()));
    check_sync(&mut predictions, &view, false, 0);

    let mut written = all[0].clone();
    written.object.status = Some(TimeSeriesPredictionStatus::default());
    view.predictions.apply(Arc::new(written));
    check_sync(&mut predictions, &view, false, 1);
    view.predictions.apply(Arc::new(object("shop", "b", 2)));
    check_sync(&mut predictions, &view, true, 1);
    let mut other = object("bank", "c", 1);
    other.object.metadata.annotations =
        Some([("plimsoll.dev/recommender".to_owned(), "other".to_owned())].into());
    view.predictions.apply(Arc::new(other));
    check_sync(&mut predictions, &view, true, 0);

    let label = (
        "plimsoll.dev/prediction-query-scope".to_owned(),
        "cluster".to_owned(),
    );
    view.namespaces.apply(Arc::new(Namespace {
        name: "shop".to_owned(),
        labels: std::collections::BTreeMap::from([label]).into(),
        annotations: std::collections::BTreeMap::new(),
    }));
    check_sync(&mut predictions, &view, true, 2);
    assert!(predictions.set_rules(Arc::new(Rules::default())));
    check_sync(&mut predictions, &view, false, 2);
    check_sync(&mut predictions, &view, false, 0);
}

#[test]
fn a_refused_metric_waits_until_there_is_clearly_room() {
    // Ten metrics of the Plimsoll method without a history.
    let mut predictions = predictions(limits(1 << 20), access());
    let mut view = View::default();
    let web = quick("shop", "web", LATER, 8);
    let mut refused = Vec::new();
    // Number of metrics of the older prediction.
    for (round, count) in [0, 3, 2, 3, 2, 1, 0].into_iter().enumerate() {
        let mut written = web.clone();
        let mut status = TimeSeriesPredictionStatus::default();
        let (kind, message) = ("Ready", round.to_string());
        let conditions = &mut status.conditions;
        api::condition::set(
            conditions,
            kind,
            ConditionStatus::False,
            "Any",
            &message,
            at(START),
        );
        written.object.status = Some(status);
        let old = quick("shop", "old", CREATED, count);
        view.predictions.reset(shared(&[&old, &written]));
        predictions.sync(&view);
        refused.push(predictions.limit(at(START)));
    }
    assert_eq!(refused, [0, 1, 1, 1, 1, 1, 0]);
}

#[test]
fn texts_of_metrics_count_and_those_of_refused_ones_are_not_kept() {
    let long = expressions(&format!("quick + {}", "x".repeat(7900)), 100);
    for (expressions, most, admitted) in [
        (long, 512 << 10, 1..6),
        (vec![String::new(); 3000], 64 << 10, 100..2000),
    ] {
        let mut predictions = predictions(limits(most), access());
        let mut view = View::default();
        let greedy = prediction("greedy", "web", CREATED, &expressions);
        view.predictions.reset(shared(&[&greedy]));
        predictions.sync(&view);
        for _ in 0..2 {
            let kept = expressions.len() - predictions.limit(at(START));
            let used = used_bytes(&mut predictions);
            assert!(
                admitted.contains(&kept) && used <= most,
                "{kept} metrics in {used} bytes"
            );
        }
    }
}

#[test]
fn metrics_beyond_the_limit_of_a_namespace_are_refused_and_others_forecast() {
    let now = at(START);
    let mut predictions = predictions(limits(1 << 20), access());
    let mut view = View::default();
    let old = quick("greedy", "old", CREATED, 2);
    let new = quick("greedy", "new", LATER, 100);
    let web = quick("shop", "web", CREATED, 2);
    view.predictions.reset(shared(&[&old, &web, &new]));
    predictions.sync(&view);
    for _ in 0..3 {
        let refused = predictions.limit(now);
        assert!((85..100).contains(&refused), "{refused} refused");
        read_all(&mut predictions, now);
    }
    let used = used_bytes(&mut predictions);
    assert!(used < 2 << 20, "{used} bytes");
    let results = predictions.take_changed();
    for uid in ["greedy/old", "shop/web"] {
        assert_eq!(
            result(&results, uid).history().0,
            ConditionStatus::True,
            "{uid}"
        );
    }
    let refused = result(&results, "greedy/new");
    let (status, reason, message) = refused.history();
    assert_eq!(
        (status, reason),
        (ConditionStatus::False, "MemoryLimitReached")
    );
    let limit = "a quarter of predictions.memoryLimit, 1 MiB";
    assert!(message.contains(limit), "{message}");
    let metric = refused.forecast(None, now).metrics.pop().expect("a metric");
    assert!(
        !metric.is_ready && metric.reason.contains("memory"),
        "{}",
        metric.reason
    );

    // With free memory they are read again.
    let small = prediction("greedy", "new", LATER, &expressions("quick", 100)[95..]);
    view.predictions.reset(shared(&[&old, &web, &small]));
    predictions.sync(&view);
    assert_eq!(predictions.limit(now), 0);
    read_all(&mut predictions, now);
    let results = predictions.take_changed();
    assert_eq!(
        result(&results, "greedy/new").history().0,
        ConditionStatus::True
    );
}

fn result<'a>(results: &'a [PredictionResult], uid: &str) -> &'a PredictionResult {
    let mut results = results.iter();
    results
        .find(|result| result.spec.uid == uid)
        .expect("it is there")
}

//! Changes of objects, failures to read histories, and memory limits.

use std::sync::Arc;
use std::time::Duration;

use api::prediction::TimeSeriesPrediction;
use serde_json::{Value, json};
use view::{Namespace, Stripped, View};

use super::super::access::{KnownRules, QueryAccess, QueryScope};
use super::super::memory_limits::MemoryLimits;
use super::super::prediction_set::{HistoryChange, PredictionSet, SyncResult};
use super::super::query_slots::QuerySlots;
use super::super::read::ReadFailure;
use super::*;
use crate::ehpa::Rules;

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

const CREATED: &str = "2026-01-01T00:00:00Z";

/// All points of a span.
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

/// Reads all histories at once.
fn read_all(predictions: &mut PredictionSet, now: Timestamp) {
    let mut slots = QuerySlots::new(1);
    while let Some(request) = predictions.next_request(&mut slots, now) {
        slots.release(&request.namespace, Duration::ZERO, now.as_second());
        predictions.record(
            &request.metric,
            Ok(points(request.range)),
            Duration::ZERO,
            now,
        );
    }
}

#[test]
fn a_failure_is_a_change_when_it_begins_when_its_reason_changes_and_when_it_ends() {
    let now = Timestamp::from_second(START).expect("in range");
    let mut predictions =
        PredictionSet::new("default".to_owned(), INTERVALS, LIMITS, true, access());
    let mut view = View::default();
    view.predictions.reset(vec![Arc::new(prediction(
        "shop",
        "web",
        CREATED,
        &expressions("quick", 1),
    ))]);
    predictions.sync(&view);
    predictions.limit(now);
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
    for (number, (why, is_change)) in answers.into_iter().enumerate() {
        let now = Timestamp::from_second(START + 600 * i64::try_from(number).expect("a few"))
            .expect("in range");
        let request = predictions
            .next_request(&mut slots, now)
            .expect("it is due");
        slots.release(&request.namespace, Duration::ZERO, now.as_second());
        let failure = ReadFailure {
            details: "connection refused".to_owned(),
            ..ReadFailure::refused(why.to_owned())
        };
        let failure = (!why.is_empty()).then_some(failure);
        let answer = failure
            .clone()
            .map_or_else(|| Ok(points(request.range)), Err);
        let change = predictions.record(&request.metric, answer, Duration::ZERO, now);
        let prediction = ObjectKey::new("shop", "web");
        let expected = HistoryChange {
            prediction,
            metric: "m-0".to_owned(),
            failure,
        };
        assert_eq!(change, is_change.then_some(expected), "{number}");
    }
}

/// Checks the result of a `sync`.
fn check_sync(predictions: &mut PredictionSet, view: &View, is_changed: bool, derived: usize) {
    assert_eq!(
        predictions.sync(view),
        SyncResult {
            is_changed,
            derived
        }
    );
}

#[test]
fn a_change_of_one_object_costs_one_object() {
    let access = QueryAccess {
        scope: QueryScope::Namespace,
        rules: KnownRules::Read(Arc::default()),
        ..access()
    };
    let mut predictions = PredictionSet::new("default".to_owned(), INTERVALS, LIMITS, true, access);
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
    check_sync(&mut predictions, &view, true, 3);
    view.predictions
        .reset(all.iter().cloned().map(Arc::new).collect());
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
    check_sync(&mut predictions, &view, true, 2);
    assert!(predictions.set_rules(Arc::new(Rules::default())));
    check_sync(&mut predictions, &view, false, 2);
    check_sync(&mut predictions, &view, false, 0);
}

#[test]
fn a_refused_metric_waits_until_there_is_clearly_room() {
    let now = Timestamp::from_second(START).expect("in range");
    // Ten metrics of the Plimsoll method without a history.
    let limits = MemoryLimits {
        namespace_bytes: 1 << 20,
        total_bytes: 4 << 20,
    };
    let mut predictions =
        PredictionSet::new("default".to_owned(), INTERVALS, limits, true, access());
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
    // Number of metrics of the older prediction.
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
        predictions.sync(&view);
        refused.push(predictions.limit(now));
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
        let mut predictions =
            PredictionSet::new("default".to_owned(), INTERVALS, limits, true, access());
        let mut view = View::default();
        view.predictions.reset(vec![Arc::new(prediction(
            "greedy",
            "web",
            CREATED,
            &expressions,
        ))]);
        predictions.sync(&view);
        for _ in 0..2 {
            let kept = expressions.len() - predictions.limit(now);
            let taken: usize = predictions
                .pipelines()
                .map(|pipeline| pipeline.bytes())
                .sum();
            assert!(
                admitted.contains(&kept) && taken <= most,
                "{kept} metrics in {taken} bytes"
            );
        }
    }
}

#[test]
fn metrics_beyond_the_limit_of_a_namespace_are_refused_and_others_forecast() {
    let now = Timestamp::from_second(START).expect("in range");
    let limits = MemoryLimits {
        namespace_bytes: 1 << 20,
        total_bytes: 4 << 20,
    };
    let mut predictions =
        PredictionSet::new("default".to_owned(), INTERVALS, limits, true, access());
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
    predictions.sync(&view);
    for _ in 0..3 {
        let refused = predictions.limit(now);
        assert!((85..100).contains(&refused), "{refused} refused");
        read_all(&mut predictions, now);
    }
    let taken: usize = predictions
        .pipelines()
        .map(|pipeline| pipeline.bytes())
        .sum();
    assert!(taken < 2 << 20, "{taken} bytes");
    let results = predictions.take_changed();
    let result = |uid: &str| {
        results
            .iter()
            .find(|result| result.spec.uid == uid)
            .expect("it is there")
    };
    for uid in ["greedy/old", "shop/web"] {
        assert_eq!(result(uid).history().0, ConditionStatus::True, "{uid}");
    }
    let (status, reason, message) = result("greedy/new").history();
    assert_eq!(
        (status, reason),
        (ConditionStatus::False, "MemoryLimitReached")
    );
    assert!(
        message.contains("--prediction-namespace-memory-limit allows, 1 MiB"),
        "{message}"
    );
    let metric = result("greedy/new")
        .forecast(None, now)
        .metrics
        .pop()
        .expect("a metric");
    assert!(
        !metric.is_ready && metric.reason.contains("memory"),
        "{}",
        metric.reason
    );

    // With free memory they are read again.
    let small = prediction(
        "greedy",
        "new",
        "2026-01-02T00:00:00Z",
        &expressions("quick", 100)[95..],
    );
    view.predictions
        .reset(wholes().into_iter().chain([Arc::new(small)]).collect());
    predictions.sync(&view);
    assert_eq!(predictions.limit(now), 0);
    read_all(&mut predictions, now);
    let results = predictions.take_changed();
    let result = results
        .iter()
        .find(|result| result.spec.uid == "greedy/new")
        .expect("it is there");
    assert_eq!(result.history().0, ConditionStatus::True);
}

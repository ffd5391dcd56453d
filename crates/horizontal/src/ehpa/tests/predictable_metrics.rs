//! Metrics that cannot be predicted are reported, once for each generation.

use serde_json::{Value, json};

use super::fixture::{
    Fixture, average, by_day, cpu, external, metric_count, planned_metrics, predicted_metrics,
    reasons, resource,
};
use crate::ehpa::status::{status, unpredictable_metrics};

fn named(kind: &str, name: &str) -> Value {
    let source = json!({"metric": {"name": name}, "target": average("10")});
    let kinds = json!({"Pods": "pods", "External": "external"});
    json!({"type": kind, kinds[kind].as_str().expect("a kind"): source})
}

/// `predicted`: predicted metrics. `others`: the other ones with their reasons.
fn check(fixture: &Fixture, predicted: &[&str], others: &[(&str, &str)]) {
    let plan = fixture.plan();
    let found = predicted_metrics(&plan)
        .iter()
        .map(|metric| metric.resource_identifier.as_str());
    assert_eq!(found.collect::<Vec<_>>(), predicted);
    let others: Vec<_> = others
        .iter()
        .map(|(metric, why)| format!("{metric}: {why}"))
        .collect();
    let expected = (!others.is_empty()).then(|| others.join("; "));
    assert_eq!(fixture.unpredictable(&plan), expected);
}

const NO_LABEL_VALUE: &str = "the metric's name is not a valid label value: at most 63 letters, digits, '-', '_' \
                              and '.', a letter or digit at both ends";

#[test]
fn a_metric_that_cannot_be_predicted_is_named_with_the_reason() {
    let long = "x".repeat(60);
    let object = json!({"type": "Object", "object": {
        "describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "m"},
        "target": average("1"),
    }});
    let metrics = json!([
        cpu(50),
        resource("example.com/gpu", &average("1")),
        named("Pods", "job:http_requests:rate5m"),
        named("Pods", "http_requests"),
        named("Pods", "http_requests"),
        named("External", &long),
        object,
    ]);
    let of_long = format!("external.{long}");
    let others = [
        (
            "resource.example.com/gpu",
            "only the resources cpu and memory are predicted",
        ),
        ("pods.job:http_requests:rate5m", NO_LABEL_VALUE),
        (
            "pods.http_requests",
            "only the first metric of this name is predicted",
        ),
        (of_long.as_str(), NO_LABEL_VALUE),
        ("object.m", "metrics of objects are not predicted"),
    ];
    let fixture = Fixture::new(&json!({ "metrics": metrics }));
    check(&fixture, &["resource.cpu", "pods.http_requests"], &others);
    // No prediction is requested.
    let fixture = Fixture::new(&json!({ "metrics": metrics, "prediction": null }));
    check(&fixture, &[], &[]);
    check(&Fixture::example(), &["resource.cpu"], &[]);
}

#[test]
fn names_that_are_no_names_cannot_become_part_of_a_query() {
    let with = |name: &str, selector: Value| {
        let mut metric = named("External", name);
        metric["external"]["metric"]["selector"] = selector;
        Fixture::new(&json!({ "metrics": [metric] }))
    };
    let hostile = r#"x="",y"#;
    let label = r#""x=\"\",y" is not the name of a label in Prometheus"#;
    let labels = json!({"matchLabels": {hostile: "a"}});
    let expressions = json!({"matchExpressions": [{"key": hostile, "operator": "Exists"}]});
    for selector in [labels, expressions] {
        check(&with("queue", selector), &[], &[("external.queue", label)]);
    }
    let metric = r#""s0-queue" is not the name of a metric in Prometheus"#;
    let fixture = with("s0-queue", Value::Null);
    check(&fixture, &[], &[("external.s0-queue", metric)]);
    // An annotation may give the query instead.
    let annotation = "metric-query.autoscaling.crane.io/external.s0-queue";
    check(
        &fixture.annotated(annotation, "sum(queue)"),
        &["external.s0-queue"],
        &[],
    );
}

#[test]
fn the_event_is_recorded_once_for_each_generation() {
    let mut fixture =
        Fixture::new(&json!({"metrics": [named("Pods", "job:http_requests:rate5m")]}));
    let mut generations = Vec::new();
    for generation in [1, 1, 2, 2, 3] {
        fixture.object.metadata.generation = Some(generation);
        let status = status(&fixture.observed(), &[], false);
        if let Some(note) = unpredictable_metrics(fixture.object.status.as_ref(), &status) {
            assert_eq!(
                note,
                format!("pods.job:http_requests:rate5m: {NO_LABEL_VALUE}")
            );
            generations.push(generation);
        }
        fixture.object.status = Some(status);
    }
    assert_eq!(generations, [1, 2, 3]);
    // Metrics that became predictable are no longer reported.
    fixture.object.spec.metrics.clear();
    assert_eq!(status(&fixture.observed(), &[], false).conditions.len(), 1);
}

#[test]
fn a_workload_whose_name_is_no_label_value_has_no_added_metrics() {
    let name = "w".repeat(64);
    let crons = json!([by_day()]);
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
    let fixture = Fixture::new(&json!({"scaleTargetRef": target, "crons": crons}));
    let fixture = fixture.predicted(&[("resource.cpu", true, 1)]);
    let why = "the workload's name is not a valid label value, so the HPA cannot select the metric";
    check(&fixture, &[], &[("resource.cpu", why)]);
    let plan = fixture.plan();
    assert_eq!(
        (metric_count(&plan), reasons(&plan)),
        (Some(1), vec!["InvalidCron"])
    );
    let plan = Fixture::new(&json!({ "crons": crons })).plan();
    assert_eq!(
        planned_metrics(&plan)[1],
        external("crane_autoscaling_cron", "cron", "1")
    );
}

//! Predicted metrics of the HPA, and the amount of each per pod.

use std::sync::Arc;

use api::condition::{self, ConditionStatus};
use api::prediction::HISTORY_READ;
use serde_json::{Value, json};
use view::Phase;

use super::fixture::{
    Fixture, average, cpu, external, metric_count, planned_hpa, planned_metrics, pod,
    predicted_metrics, reasons, resource,
};

#[test]
fn a_prediction_joins_the_hpa_only_with_exactly_one_series() {
    let cpu = cpu(50);
    // Half of 251 millicores, rounded down.
    let predicted = external("crane_autoscaling_prediction", "resource.cpu", "125m");
    let check = |metrics: &[(&str, bool, usize)], expected: &[&Value]| {
        let plan = Fixture::example().predicted(metrics).plan();
        assert_eq!(planned_metrics(&plan), json!(expected), "{metrics:?}");
    };
    check(&[], &[&cpu]);
    check(&[("resource.cpu", true, 1)], &[&cpu, &predicted]);
    check(&[("resource.cpu", false, 1)], &[&cpu]);
    check(&[("resource.cpu", true, 2)], &[&cpu]);
    check(&[("resource.memory", true, 1)], &[&cpu]);
}

#[test]
fn a_lost_prediction_stays_in_the_hpa_to_block_scale_down() {
    let expected = Fixture::example()
        .predicted(&[("resource.cpu", true, 1)])
        .plan();
    let check = |fixture: Fixture, metrics: usize| {
        let plan = fixture.hpa(planned_hpa(&expected)).plan();
        assert_eq!(metric_count(&plan), Some(metrics));
    };
    let fixture = Fixture::example;
    check(fixture().predicted(&[("resource.cpu", true, 1)]), 2);
    check(fixture().predicted(&[("resource.cpu", false, 1)]), 2);
    check(fixture().predicted(&[("resource.cpu", false, 0)]), 2);
    check(fixture().predicted(&[]), 2);
    check(fixture(), 2);
    check(fixture().predicted(&[("resource.cpu", true, 2)]), 1);
    check(Fixture::new(&json!({"prediction": null})), 1);

    // There is no forecast since then. The history is readable or not, since another time.
    let unready = |since: &str, read: Option<(ConditionStatus, &str)>| {
        let mut fixture = fixture().predicted(&[("resource.cpu", false, 0)]);
        let prediction = fixture.prediction.as_mut().expect("a prediction");
        let status = prediction.status.as_mut().expect("a status");
        let mut set = |kind, holds, since: &str| {
            let since = since.parse().expect("a time");
            condition::set(&mut status.conditions, kind, holds, "", "", since);
        };
        set("Ready", ConditionStatus::False, since);
        if let Some((holds, since)) = read {
            set(HISTORY_READ, holds, since);
        }
        fixture
    };
    let long_ago = "2025-12-01T00:00:00Z";
    let over_an_hour = "2025-12-31T23:00:09Z";
    let under_an_hour = "2025-12-31T23:00:11Z";
    for (since, read, metrics) in [
        (under_an_hour, Some((ConditionStatus::True, long_ago)), 2),
        (over_an_hour, Some((ConditionStatus::True, long_ago)), 1),
        (over_an_hour, Some((ConditionStatus::True, over_an_hour)), 1),
        (long_ago, Some((ConditionStatus::True, under_an_hour)), 2),
        (long_ago, Some((ConditionStatus::False, long_ago)), 2),
        (long_ago, Some((ConditionStatus::Unknown, long_ago)), 2),
        (long_ago, None, 2),
    ] {
        check(unready(since, read), metrics);
    }
}

#[test]
fn each_kind_of_metric_has_its_identifier_query_and_amount_per_pod() {
    let metrics = json!([
        resource("memory", &json!({"type": "Utilization", "averageUtilization": 80})),
        resource("cpu", &average("300m")),
        {"type": "ContainerResource", "containerResource": {
            "name": "cpu", "container": "app", "target": {"type": "Utilization", "averageUtilization": 25},
        }},
        {"type": "Pods", "pods": {
            "metric": {"name": "http_requests", "selector": {"matchLabels": {"path": "a\"b"}, "matchExpressions": [
                {"key": "verb", "operator": "In", "values": ["GET", "a.b"]}, {"key": "code", "operator": "NotIn", "values": ["500"]},
                {"key": "host", "operator": "Exists"}, {"key": "test", "operator": "DoesNotExist"},
            ]}}, "target": average("10"),
        }},
        {"type": "Pods", "pods": {"metric": {"name": "http_requests"}, "target": average("20")}},
        {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "7"}}},
        {"type": "Object", "object": {
            "describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "m"}, "target": average("1"),
        }},
    ]);
    let identifiers = [
        "resource.memory",
        "resource.cpu",
        "container-resource.cpu",
        "pods.http_requests",
        "external.queue",
    ];
    let annotation = "metric-query.autoscaling.crane.io/external.queue";
    let fixture = Fixture::new(&json!({ "metrics": metrics }))
        .annotated(annotation, "sum(queue_length)")
        .predicted(&identifiers.map(|identifier| (identifier, true, 1)));
    let plan = fixture.plan();
    let predicted =
        |identifier, average| external("crane_autoscaling_prediction", identifier, average);
    let expected = [
        // 80 % of 1.5 MiB, in thousandths of a byte.
        predicted("resource.memory", "1258291200m"),
        predicted("resource.cpu", "300m"),
        predicted("container-resource.cpu", "50m"),
        predicted("pods.http_requests", "10"),
    ];
    assert_eq!(
        planned_metrics(&plan).as_array().expect("metrics")[7..],
        expected
    );
    assert_eq!(
        reasons(&plan),
        ["PredictionWithoutTarget"],
        "a Value cannot be divided by"
    );
    let metrics = predicted_metrics(&plan).iter();
    let queries = metrics.map(|metric| {
        let expression = metric
            .expression_query
            .as_ref()
            .map(|query| query.expression.as_str());
        (
            metric.resource_identifier.as_str(),
            metric.resource_query.as_deref(),
            expression,
        )
    });
    let pods = r#"namespace="shop",pod=~"php-apache-[a-z0-9]+-[a-z0-9]{5}""#;
    let selected = r#"path="a\"b",verb=~"GET|a\\.b",code!~"500",host!="",test="""#;
    let requests = format!("sum(http_requests{{{selected},{pods}}})");
    let cpu =
        format!(r#"sum(irate(container_cpu_usage_seconds_total{{{pods},container="app"}}[3m]))"#);
    let expected = [
        ("resource.memory", Some("memory"), None),
        ("resource.cpu", Some("cpu"), None),
        ("container-resource.cpu", None, Some(cpu.as_str())),
        ("pods.http_requests", None, Some(requests.as_str())),
        ("external.queue", None, Some("sum(queue_length)")),
    ];
    assert_eq!(queries.collect::<Vec<_>>(), expected);
}

#[test]
fn without_running_pods_the_previous_amount_stays() {
    let ready = [("resource.cpu", true, 1)];
    let mut fixture = Fixture::example().predicted(&ready);
    let before = fixture.plan();
    fixture.pods = vec![Arc::new(pod("one", Phase::Pending))];
    let plan = fixture.plan();
    assert_eq!(metric_count(&plan), Some(1));
    assert_eq!(reasons(&plan), ["PredictionWithoutTarget"]);
    let fixture = fixture.hpa(planned_hpa(&before));
    assert_eq!(planned_hpa(&fixture.plan()), planned_hpa(&before));
}

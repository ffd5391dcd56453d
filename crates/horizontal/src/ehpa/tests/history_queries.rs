//! Query for the history of a metric: from an annotation, else from a rule, else a sum.

use api::ehpa::METRIC_RULES_USABLE;
use serde_json::{Value, json};

use super::fixture::{Fixture, average, predicted_metrics};
use crate::ehpa::history_queries::Rules;
use crate::ehpa::status::status;

const RULES: &str = "externalRules: [{seriesQuery: 'queue{}', metricsQuery: 'max(<<.Series>>{<<.LabelMatchers>>})'}]";
/// Rule file of the deployed adapter.
const DEPLOYED: &str = include_str!("../../../../../deploy/components/rules/config.yaml");

fn fixture(rules: &str, matchers: &[&str], kind: &str, metric: &Value) -> Fixture {
    let metric = json!({"metric": metric, "target": average("10")});
    let metrics = json!([{"type": kind, kind.to_lowercase(): metric}]);
    let mut fixture = Fixture::new(&json!({ "metrics": metrics }));
    fixture.rules = Rules::of(rules, matchers);
    fixture
}

/// The same fixture, with an annotation for the query of the metric.
fn with_own(fixture: Fixture) -> Fixture {
    fixture.annotated(
        "metric-query.autoscaling.crane.io/external.queue",
        "avg(queue)",
    )
}

/// `expected`: the query for the history of the only metric, or the reason for which it is not
/// predicted.
fn check(fixture: &Fixture, expected: Result<&str, &str>) {
    let plan = fixture.plan();
    let query = predicted_metrics(&plan)
        .first()
        .and_then(|metric| metric.expression_query.as_ref());
    let query = query.map(|query| query.expression.as_str());
    let why = fixture.unpredictable(&plan);
    let found = (query, why.as_deref());
    assert_eq!(
        found,
        (expected.ok(), expected.err()),
        "{:?}",
        fixture.object.spec.metrics
    );
}

#[test]
fn annotations_override_rules_and_rules_override_sums() {
    let queue = |rules: &str, label: &str| {
        let selector = json!({"matchLabels": {label: "a"}});
        fixture(
            rules,
            &[],
            "External",
            &json!({"name": "queue", "selector": selector}),
        )
    };
    check(&queue("", "topic"), Ok(r#"sum(queue{topic="a"})"#));
    let by_rule = r#"sum(max(queue{topic="a",namespace="shop"}))"#;
    check(&queue(RULES, "topic"), Ok(by_rule));
    check(&with_own(queue(RULES, "topic")), Ok("avg(queue)"));
    let why = "external.queue: externalRules[0]: \"example.com/topic\" is not the name of a label in Prometheus";
    check(&queue(RULES, "example.com/topic"), Err(why));
    check(
        &with_own(queue(RULES, "example.com/topic")),
        Ok("avg(queue)"),
    );
}

#[test]
fn metrics_of_pods_are_summed_over_all_pods_of_the_workload_by_the_query_of_their_rule() {
    let metric = |name: &str| json!({"name": name, "selector": {"matchLabels": {"verb": "GET", "code": "200"}}});
    let pods = r#"namespace="shop",pod=~"php-apache-[a-z0-9]+-[a-z0-9]{5}""#;
    let query = format!(
        r#"sum(rate(http_requests_total{{namespace!="",pod!="",cluster="a",code="200",verb="GET",{pods}}}[2m]))"#
    );
    let deployed = |name| fixture(DEPLOYED, &[r#"cluster="a""#], "Pods", &metric(name));
    check(&deployed("http_requests"), Ok(&query));
    let query = format!(r#"sum(requests{{code="200",verb="GET",{pods}}})"#);
    check(&deployed("requests"), Ok(&query));
}

#[test]
fn of_several_rules_the_last_one_that_finds_series_counts() {
    let rule = |series: &str| {
        format!("{{seriesQuery: {series}, name: {{as: x}}, metricsQuery: 'sum(<<.Series>>)'}}")
    };
    let rules = ["a", "b", "c", "d", "e"].map(rule).join(",");
    let rules = format!("externalRules: [{rules}]");
    let fixture = fixture(&rules, &[], "External", &json!({"name": "x"}));
    check(&fixture, Ok("sum(e) or sum(d) or sum(c) or sum(b)"));
}

#[test]
fn without_valid_rules_queries_stay_as_they_are() {
    let mut fixture = fixture("", &[], "External", &json!({"name": "queue"}));
    fixture.rules = Rules::default();
    fixture.rules.error = Some("rules[0]: no".to_owned());
    check(&fixture, Err("external.queue: rules[0]: no"));
    fixture = fixture.predicted(&[]);
    let prediction = fixture.prediction.as_mut().expect("a prediction");
    let algorithm = json!({"algorithmType": "dsp"});
    let query = json!({"expression": "max(queue)"});
    let metric = json!({
        "resourceIdentifier": "external.queue", "type": "ExpressionQuery", "expressionQuery": query, "algorithm": algorithm,
    });
    prediction.spec.prediction_metrics = vec![serde_json::from_value(metric).expect("a metric")];
    check(&fixture, Ok("max(queue)"));
    fixture.object.spec.scale_target_ref.name = "other".to_owned();
    check(&fixture, Err("external.queue: rules[0]: no"));
}

#[test]
fn invalid_rules_cause_a_condition_only_where_rules_apply() {
    let rules_condition = |fixture: &Fixture| {
        let conditions = status(&fixture.observed(), &[], false).conditions;
        let mut conditions = conditions.into_iter();
        let condition = conditions.find(|condition| condition.kind == METRIC_RULES_USABLE)?;
        Some((condition.reason, condition.message))
    };
    let mut fixture = fixture(RULES, &[], "External", &json!({"name": "queue"}));
    assert_eq!(rules_condition(&fixture), None);
    fixture.rules.error = Some("rules[0]: no".to_owned());
    let message = "rules[0]: no; the previous queries stay in use".to_owned();
    let expected = ("MetricRulesBroken".to_owned(), message);
    assert_eq!(rules_condition(&fixture), Some(expected));
    check(&fixture, Ok(r#"sum(max(queue{namespace="shop"}))"#));
    assert_eq!(rules_condition(&with_own(fixture)), None);
    let mut of_cpu = Fixture::example();
    of_cpu.rules.error = Some("rules[0]: no".to_owned());
    assert_eq!(rules_condition(&of_cpu), None);
}

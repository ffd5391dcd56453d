//! Query for the history of a metric: from an annotation, else from a rule, else a sum.

use api::ehpa::{METRIC_RULES_USABLE, METRICS_PREDICTABLE};
use serde_json::{Value, json};

use super::fixture::Fixture;
use crate::ehpa::plan::Desired;
use crate::ehpa::rules::Rules;
use crate::ehpa::status::status;

const RULES: &str = "externalRules: [{seriesQuery: 'queue{}', metricsQuery: 'max(<<.Series>>{<<.LabelMatchers>>})'}]";
/// Rule file of the deployed adapter.
const DEPLOYED: &str = include_str!("../../../../../deploy/components/rules/config.yaml");

fn fixture(rules: &str, matchers: &[&str], kind: &str, metric: &Value) -> Fixture {
    let target = json!({"type": "AverageValue", "averageValue": "10"});
    let metrics =
        json!([{"type": kind, kind.to_lowercase(): {"metric": metric, "target": target}}]);
    let mut fixture = Fixture::new(&json!({ "metrics": metrics }));
    fixture.rules = Rules::of(rules, matchers);
    fixture
}

/// `expected`: the query for the history of the only metric, or the reason for which it is not
/// predicted.
fn check(fixture: &Fixture, expected: Result<&str, &str>) {
    let plan = fixture.plan();
    let status = status(&fixture.observed(), &plan.problems, false);
    let condition = status
        .conditions
        .iter()
        .find(|condition| condition.kind == METRICS_PREDICTABLE);
    let found = match &plan.prediction {
        Desired::Apply(prediction) => prediction.spec.prediction_metrics[0]
            .expression_query
            .as_ref(),
        _ => None,
    };
    let found = found.map(|query| query.expression.as_str());
    let why = condition.map(|condition| condition.message.as_str());
    assert_eq!(
        (found, why),
        (expected.ok(), expected.err()),
        "{:?}",
        fixture.object.spec.metrics
    );
}

#[test]
fn annotations_override_rules_and_rules_override_sums() {
    let queue = |rules: &str, label: &str| {
        fixture(
            rules,
            &[],
            "External",
            &json!({"name": "queue", "selector": {"matchLabels": {label: "a"}}}),
        )
    };
    let own = |fixture: Fixture| {
        fixture.annotated(
            "metric-query.autoscaling.crane.io/external.queue",
            "avg(queue)",
        )
    };
    check(&queue("", "topic"), Ok(r#"sum(queue{topic="a"})"#));
    check(
        &queue(RULES, "topic"),
        Ok(r#"sum(max(queue{topic="a",namespace="shop"}))"#),
    );
    check(&own(queue(RULES, "topic")), Ok("avg(queue)"));
    let why = "external.queue: externalRules[0]: \"example.com/topic\" is not the name of a label in Prometheus";
    check(&queue(RULES, "example.com/topic"), Err(why));
    check(&own(queue(RULES, "example.com/topic")), Ok("avg(queue)"));
}

#[test]
fn metrics_of_pods_are_summed_over_all_pods_of_the_workload_by_the_query_of_their_rule() {
    let metric = |name: &str| json!({"name": name, "selector": {"matchLabels": {"verb": "GET", "code": "200"}}});
    let pods = r#"namespace="shop",pod=~"php-apache-[a-z0-9]+-[a-z0-9]{5}""#;
    let query = format!(
        r#"sum(rate(http_requests_total{{namespace!="",pod!="",cluster="a",code="200",verb="GET",{pods}}}[2m]))"#
    );
    check(
        &fixture(
            DEPLOYED,
            &[r#"cluster="a""#],
            "Pods",
            &metric("http_requests"),
        ),
        Ok(&query),
    );
    let query = format!(r#"sum(requests{{code="200",verb="GET",{pods}}})"#);
    check(
        &fixture(DEPLOYED, &[r#"cluster="a""#], "Pods", &metric("requests")),
        Ok(&query),
    );
}

#[test]
fn of_several_rules_the_last_one_that_finds_series_counts() {
    let rule = |series: &str| {
        format!("{{seriesQuery: {series}, name: {{as: x}}, metricsQuery: 'sum(<<.Series>>)'}}")
    };
    let rules = ["a", "b", "c", "d", "e"].map(rule).join(",");
    let rules = format!("externalRules: [{rules}]");
    check(
        &fixture(&rules, &[], "External", &json!({"name": "x"})),
        Ok("sum(e) or sum(d) or sum(c) or sum(b)"),
    );
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
    prediction.spec.prediction_metrics = vec![
        serde_json::from_value(json!({
            "resourceIdentifier": "external.queue", "type": "ExpressionQuery", "expressionQuery": query, "algorithm": algorithm,
        }))
        .expect("a metric"),
    ];
    check(&fixture, Ok("max(queue)"));
    fixture.object.spec.scale_target_ref.name = "other".to_owned();
    check(&fixture, Err("external.queue: rules[0]: no"));
}

#[test]
fn invalid_rules_cause_a_condition_only_where_rules_apply() {
    let rules_condition = |fixture: &Fixture| {
        let conditions = status(&fixture.observed(), &[], false).conditions;
        let condition = conditions
            .into_iter()
            .find(|condition| condition.kind == METRIC_RULES_USABLE);
        condition.map(|condition| (condition.reason, condition.message))
    };
    let mut fixture = fixture(RULES, &[], "External", &json!({"name": "queue"}));
    assert_eq!(rules_condition(&fixture), None);
    fixture.rules.error = Some("rules[0]: no".to_owned());
    let expected = (
        "MetricRulesBroken".to_owned(),
        "rules[0]: no; histories are asked for as before".to_owned(),
    );
    assert_eq!(rules_condition(&fixture), Some(expected));
    check(&fixture, Ok(r#"sum(max(queue{namespace="shop"}))"#));
    let annotated = fixture.annotated(
        "metric-query.autoscaling.crane.io/external.queue",
        "avg(queue)",
    );
    assert_eq!(rules_condition(&annotated), None);
    let mut of_cpu = Fixture::new(&json!({}));
    of_cpu.rules.error = Some("rules[0]: no".to_owned());
    assert_eq!(rules_condition(&of_cpu), None);
}

//! Rules from prometheus-adapter's documentation, with the queries that it produces.

use super::*;

fn rule(text: &str) -> Arc<Rule> {
    let mut rules = RuleSet::parse(text).expect(text);
    rules
        .custom
        .pop()
        .or_else(|| rules.external.pop())
        .expect("a rule")
}

/// A rule with only this query.
fn of_objects(query: &str) -> Arc<Rule> {
    rule(&format!(
        "rules: [{{seriesQuery: up, metricsQuery: {query:?}}}]"
    ))
}

fn check_objects(
    rule: &Rule,
    namespace: Option<(&str, &str)>,
    names: &[&str],
    selector: &str,
    expected: &str,
) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let objects = Objects {
        label: "resource",
        names: &names,
        namespace,
    };
    let query = rule.query_objects("foo", objects, &selector.parse().expect(selector));
    assert_eq!(query.as_deref(), Ok(expected));
}

fn check_external(query: &str, is_namespaced: bool, selector: &str, expected: &str) {
    let text = format!(
        "externalRules: [{{seriesQuery: up, metricsQuery: {query:?}, resources: {{namespaced: {is_namespaced}}}}}]"
    );
    let query = rule(&text).query_external(
        "foo",
        Some("namespaces"),
        "default",
        &selector.parse().expect(selector),
    );
    assert_eq!(query.as_deref(), Ok(expected));
}

/// The cases of upstream's `TestBuildSelector`.
#[test]
fn queries_for_objects_are_those_of_upstream() {
    let check = |query: &str, namespace, names: &[&str], selector: &str, expected: &str| {
        check_objects(&of_objects(query), namespace, names, selector, expected);
    };
    check("series <<.Series>>", None, &["bar"], "", "series foo");
    check(
        "<<.LabelMatchers>>",
        None,
        &["bar", "baz"],
        "",
        r#"resource=~"bar|baz""#,
    );
    check(
        "<<.LabelMatchers>>",
        None,
        &["bar"],
        "",
        r#"resource="bar""#,
    );
    check(
        "<<.LabelMatchers>>",
        None,
        &["bar"],
        "metric1=value1",
        r#"metric1="value1",resource="bar""#,
    );
    check(
        "<<index .LabelValuesByName \"resource\">>",
        None,
        &["bar"],
        "",
        "bar",
    );
    check(
        "<<index .LabelValuesByName \"resource\">>",
        None,
        &["bar", "baz"],
        "",
        "bar|baz",
    );
    check(
        "<<index .LabelValuesByName \"namespaces\">> <<index .LabelValuesByName \"resource\">>",
        Some(("namespaces", "default")),
        &["bar", "baz"],
        "",
        "default bar|baz",
    );
    check("<<.GroupBy>>", None, &["bar"], "", "resource");
    check("<<.GroupBySlice>>", None, &["bar"], "", "[resource]");
}

/// The cases of upstream's `TestBuildExternalSelector`.
#[test]
fn queries_for_external_metrics_are_those_of_upstream() {
    check_external("series <<.Series>>", true, "", "series foo");
    check_external("x<<.GroupBy>>", true, "", "x");
    check_external("<<.GroupBySlice>>", true, "", "[]");
    check_external(
        "<<index .LabelValuesByName \"namespaces\">> <<.Series>>",
        true,
        "",
        "default foo",
    );
    check_external(
        "<<index .LabelValuesByName \"namespaces\">> <<.Series>>",
        false,
        "",
        " foo",
    );
    check_external("<<.LabelMatchers>>", false, "foo=bar", r#"foo="bar""#);
    check_external(
        "<<.LabelMatchers>>",
        true,
        "foo=bar",
        r#"foo="bar",namespaces="default""#,
    );
    check_external(
        "<<.LabelMatchers>>",
        false,
        "foo=bar,qux in (bar,baz)",
        r#"foo="bar",qux=~"bar|baz""#,
    );
    check_external("<<.LabelValuesByName>>", false, "foo=bar", "map[foo:bar]");
    check_external(
        "<<.LabelValuesByName>>",
        false,
        "foo in (bar,baz)",
        "map[foo:bar|baz]",
    );
}

/// `docs/config-walkthrough.md`: requests per second of each pod.
#[test]
fn the_rule_of_the_walkthrough_asks_for_rates() {
    let rule = rule(
        r#"
rules:
- seriesQuery: 'http_requests_total{kubernetes_namespace!="",kubernetes_pod_name!=""}'
  resources:
    overrides:
      kubernetes_namespace: {resource: "namespace"}
      kubernetes_pod_name: {resource: "pod"}
  name:
    matches: "^(.*)_total"
    as: "${1}_per_second"
  metricsQuery: 'sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)'
"#,
    );
    assert_eq!(
        rule.naming.name("http_requests_total").as_deref(),
        Some("http_requests_per_second")
    );
    let names = ["web-0123".to_owned(), "web-4567".to_owned()];
    let namespace = Some(("kubernetes_namespace", "production"));
    let objects = Objects {
        label: "kubernetes_pod_name",
        names: &names,
        namespace,
    };
    assert_eq!(
        rule.query_objects("http_requests_total", objects, &Selector::everything())
            .as_deref(),
        Ok(
            "sum(rate(http_requests_total{kubernetes_namespace=\"production\",\
            kubernetes_pod_name=~\"web-0123|web-4567\"}[2m])) by (kubernetes_pod_name)"
        )
    );
}

/// The rules of `docs/sample-config.yaml`, without its errors: an extra comma, and `metricQuery`.
#[test]
fn the_sample_rules_are_read() {
    let set = RuleSet::parse(include_str!("sample.yaml")).expect("the sample");
    assert_eq!((set.custom.len(), set.external.len()), (4, 2));
    let warnings: Vec<String> = set.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("resourceRules: metrics.k8s.io is not served here"),
        "{warnings:?}"
    );
    let names: Vec<Option<String>> = set
        .custom
        .iter()
        .map(|rule| rule.naming.name("container_fs_reads_seconds_total"))
        .collect();
    let expected = [
        Some("fs_reads"),
        None,
        Some("container_fs_reads_seconds"),
        Some("cheesy_goodness"),
    ];
    assert_eq!(
        names.iter().map(Option::as_deref).collect::<Vec<_>>(),
        expected
    );
    let selector = "topic in (a,b)".parse().expect("a selector");
    let query = set.external[0].query_external("queue_consumer_lag", None, "shop", &selector);
    assert_eq!(
        query.as_deref(),
        Ok(r#"sum(queue_consumer_lag{topic=~"a|b",namespace="shop"}) by (name)"#)
    );
    let query = set.external[1].query_external("queue_depth", None, "shop", &selector);
    assert_eq!(
        query.as_deref(),
        Ok(r#"sum(queue_depth{topic=~"a|b"}) by (name)"#)
    );
}

#[test]
fn hostile_values_stay_values() {
    let names = ["x\"} or up{a=\"".to_owned()];
    let objects = Objects {
        label: "pod",
        names: &names,
        namespace: None,
    };
    let query = of_objects("foo{<<.LabelMatchers>>}").query_objects(
        "foo",
        objects,
        &Selector::everything(),
    );
    assert_eq!(query.as_deref(), Ok(r#"foo{pod="x\"} or up{a=\""}"#));
    let raw = of_objects("foo{pod=~'<<index .LabelValuesByName \"pod\">>'}");
    assert!(matches!(
        raw.query_objects("foo", objects, &Selector::everything()),
        Err(QueryError::Wrong(_))
    ));
}

fn check_error(text: &str, expected: &str) {
    let error = RuleSet::parse(text).expect_err(text).to_string();
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn errors_name_the_rule_and_the_field() {
    check_error(
        "rules: [{metricsQuery: x}]",
        "rules[0].seriesQuery: must be set",
    );
    check_error(
        "rules: [{seriesQuery: x}]",
        "rules[0].metricsQuery: must be set",
    );
    let second = |query: &str| {
        format!(
            "externalRules: [{{seriesQuery: x, metricsQuery: y}}, {{seriesQuery: x, metricsQuery: {query:?}}}]"
        )
    };
    check_error(
        &second("<<.Serie>>"),
        "externalRules[1].metricsQuery: there is no field .Serie",
    );
    check_error(
        &second("<<index .GroupBySlice 0>>"),
        "externalRules[1].metricsQuery: the query of externalRules[1]",
    );
    check_error(
        &second("<<printf .Series>>"),
        "externalRules[1].metricsQuery: function \"printf\" is not supported",
    );
    check_error(
        "rules: [{seriesQuery: x, metricsQuery: y, name: {matches: '('}}]",
        "rules[0].name.matches: ",
    );
    check_error(
        "rules: [{seriesQuery: x, metricsQuery: y, resources: {template: x}}]",
        "rules[0].resources.template: ",
    );
}

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

fn of_objects(query: &str) -> Arc<Rule> {
    rule(&format!(
        "rules: [{{seriesQuery: up, metricsQuery: {query:?}}}]"
    ))
}

fn check_objects(
    query: &str,
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
    let found = of_objects(query).query_objects("foo", objects, &selector.parse().expect(selector));
    assert_eq!(found.as_deref(), Ok(expected), "{query}");
}

fn check_external(query: &str, is_namespaced: bool, selector: &str, expected: &str) {
    let text = format!(
        "externalRules: [{{seriesQuery: up, metricsQuery: {query:?}, resources: {{namespaced: {is_namespaced}}}}}]"
    );
    let selector = selector.parse().expect(selector);
    let found = rule(&text).query_external("foo", Some("namespaces"), "default", &selector);
    assert_eq!(found.as_deref(), Ok(expected), "{query}");
}

/// The cases of upstream's `TestBuildSelector`.
#[test]
fn queries_for_objects_are_those_of_upstream() {
    let (bar, both) = (&["bar"][..], &["bar", "baz"][..]);
    let value = "<<index .LabelValuesByName \"resource\">>";
    let selected = r#"metric1="value1",resource="bar""#;
    for (query, names, selector, expected) in [
        ("series <<.Series>>", bar, "", "series foo"),
        ("<<.LabelMatchers>>", both, "", r#"resource=~"bar|baz""#),
        ("<<.LabelMatchers>>", bar, "", r#"resource="bar""#),
        ("<<.LabelMatchers>>", bar, "metric1=value1", selected),
        (value, bar, "", "bar"),
        (value, both, "", "bar|baz"),
        ("<<.GroupBy>>", bar, "", "resource"),
        ("<<.GroupBySlice>>", bar, "", "[resource]"),
    ] {
        check_objects(query, None, names, selector, expected);
    }
    let with_namespace = format!("<<index .LabelValuesByName \"namespaces\">> {value}");
    let namespace = Some(("namespaces", "default"));
    check_objects(&with_namespace, namespace, both, "", "default bar|baz");
}

/// The cases of upstream's `TestBuildExternalSelector`.
#[test]
fn queries_for_external_metrics_are_those_of_upstream() {
    let namespace = "<<index .LabelValuesByName \"namespaces\">> <<.Series>>";
    let (matchers, values) = ("<<.LabelMatchers>>", "<<.LabelValuesByName>>");
    let of_namespace = r#"foo="bar",namespaces="default""#;
    let of_set = r#"foo="bar",qux=~"bar|baz""#;
    for (query, is_namespaced, selector, expected) in [
        ("series <<.Series>>", true, "", "series foo"),
        ("x<<.GroupBy>>", true, "", "x"),
        ("<<.GroupBySlice>>", true, "", "[]"),
        (namespace, true, "", "default foo"),
        (namespace, false, "", " foo"),
        (matchers, false, "foo=bar", r#"foo="bar""#),
        (matchers, true, "foo=bar", of_namespace),
        (matchers, false, "foo=bar,qux in (bar,baz)", of_set),
        (values, false, "foo=bar", "map[foo:bar]"),
        (values, false, "foo in (bar,baz)", "map[foo:bar|baz]"),
    ] {
        check_external(query, is_namespaced, selector, expected);
    }
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
    let seconds = Some("container_fs_reads_seconds");
    let expected = [Some("fs_reads"), None, seconds, Some("cheesy_goodness")];
    for (rule, expected) in std::iter::zip(&set.custom, expected) {
        let name = rule.naming.name("container_fs_reads_seconds_total");
        assert_eq!(name.as_deref(), expected);
    }
    let selector = "topic in (a,b)".parse().expect("a selector");
    let lag = r#"sum(queue_consumer_lag{topic=~"a|b",namespace="shop"}) by (name)"#;
    let depth = r#"sum(queue_depth{topic=~"a|b"}) by (name)"#;
    let expected = [("queue_consumer_lag", lag), ("queue_depth", depth)];
    for (rule, (metric, expected)) in std::iter::zip(&set.external, expected) {
        let query = rule.query_external(metric, None, "shop", &selector);
        assert_eq!(query.as_deref(), Ok(expected));
    }
}

#[test]
fn hostile_values_stay_values() {
    let names = ["x\"} or up{a=\"".to_owned()];
    let objects = Objects {
        label: "pod",
        names: &names,
        namespace: None,
    };
    let query =
        |text: &str| of_objects(text).query_objects("foo", objects, &Selector::everything());
    let matched = query("foo{<<.LabelMatchers>>}");
    assert_eq!(matched.as_deref(), Ok(r#"foo{pod="x\"} or up{a=\""}"#));
    let raw = query("foo{pod=~'<<index .LabelValuesByName \"pod\">>'}");
    assert!(matches!(raw, Err(QueryError::Wrong(_))), "{raw:?}");
}

#[test]
fn errors_name_the_rule_and_the_field() {
    let second = |query: &str| {
        format!(
            "externalRules: [{{seriesQuery: x, metricsQuery: y}}, {{seriesQuery: x, metricsQuery: {query:?}}}]"
        )
    };
    for (query, expected) in [
        ("<<.Serie>>", "there is no field .Serie"),
        ("<<index .GroupBySlice 0>>", "the query of externalRules[1]"),
        ("<<printf .Series>>", "function \"printf\" is not supported"),
    ] {
        let expected = format!("externalRules[1].metricsQuery: {expected}");
        let error = RuleSet::parse(&second(query)).expect_err(query).to_string();
        assert!(error.starts_with(&expected), "{error}");
    }
    for (rule, expected) in [
        ("metricsQuery: x", "seriesQuery: must be set"),
        ("seriesQuery: x", "metricsQuery: must be set"),
        (
            "seriesQuery: x, metricsQuery: y, name: {matches: '('}",
            "name.matches: ",
        ),
        (
            "seriesQuery: x, metricsQuery: y, resources: {template: x}",
            "resources.template: ",
        ),
    ] {
        let text = format!("rules: [{{{rule}}}]");
        let error = RuleSet::parse(&text).expect_err(rule).to_string();
        assert!(
            error.starts_with(&format!("rules[0].{expected}")),
            "{error}"
        );
    }
}

//! Query for the history of a metric: the rule's own, over all past pods of a workload, as one sum.
//!
//! The series of a metric are determined from the rule alone, since deleted series are not listed.
//! The matchers are those of the series query, then additional ones, then the selector by label
//! names, then namespace and pods.
//!
//! Source: gocrane/crane `pkg/prometheus-adapter/expression.go`. As there, a final `by` for the
//! objects is removed; unlike there, only if a sum remains, since a mean over pods is no total.

use model::Selector;

use super::super::QueryError;
use super::super::matchers::Matchers;
use super::{NAMESPACE_LABEL, Rule};
use crate::confine::{Token, tokens};
use crate::is_metric_name;

/// Workload of a history query.
#[derive(Debug, Clone, Copy)]
pub struct Workload<'a> {
    pub namespace: &'a str,
    /// Regular expression for the whole names of its pods.
    pub pods: &'a str,
}

impl Rule {
    /// The sum of a pods metric over a workload; `None` if the rule does not produce it. `further`
    /// are matchers.
    pub fn history_of_pods(
        &self,
        metric: &str,
        selector: &Selector,
        further: &[String],
        workload: Workload<'_>,
    ) -> Option<Result<String, QueryError>> {
        let (series, label) = (self.series_of(metric)?, self.association.label_for("pods")?);
        let Some(of_namespace) = self.association.label_for("namespaces") else {
            let why = "resources do not say which label has the namespace of pods";
            return Some(Err(QueryError::Wrong(why.to_owned())));
        };
        let sum = |mut matchers: Matchers| {
            matchers.one_of(&of_namespace, [workload.namespace]);
            matchers.like(&label, workload.pods);
            self.sum(&series, &matchers, &label)
        };
        Some(self.matchers(selector, further).and_then(sum))
    }

    /// The sum of an external metric; `None` if the rule has none. `further` are matchers.
    pub fn history_of_external(
        &self,
        metric: &str,
        selector: &Selector,
        further: &[String],
        namespace: &str,
    ) -> Option<Result<String, QueryError>> {
        let series = self.series_of(metric)?;
        let sum = |mut matchers: Matchers| {
            if self.is_namespaced {
                let label = self.association.label_for("namespaces");
                matchers.one_of(label.as_deref().unwrap_or(NAMESPACE_LABEL), [namespace]);
            }
            self.sum(&series, &matchers, "")
        };
        Some(self.matchers(selector, further).and_then(sum))
    }

    /// The name of a metric's series according to the rule, existing or not.
    fn series_of(&self, metric: &str) -> Option<String> {
        let query = self.series.as_ref()?;
        let series = query.exact.clone();
        let series = series.or_else(|| self.naming.series(metric))?;
        let makes_it = self.naming.name(&series).as_deref() == Some(metric);
        (makes_it && query.includes(&series) && is_metric_name(&series)).then_some(series)
    }

    fn matchers(&self, selector: &Selector, further: &[String]) -> Result<Matchers, QueryError> {
        let mut matchers = Matchers::of(selector)?;
        let of_series = self.series.iter().flat_map(|series| &series.matchers);
        matchers.put_first(of_series.chain(further));
        Ok(matchers)
    }

    fn sum(&self, series: &str, matchers: &Matchers, label: &str) -> Result<String, QueryError> {
        let group = (!label.is_empty()).then(|| label.to_owned());
        let group = group.into_iter().collect();
        Ok(total(&self.fill(series, matchers, group)?, label))
    }
}

/// The sum of a query over all values of a label.
fn total(query: &str, label: &str) -> String {
    let query = query.trim();
    match ungrouped(query, label).unwrap_or(query) {
        sum if is_sum(sum) => sum.to_owned(),
        _ => format!("sum({query})"),
    }
}

/// The query without a final `by (label)`.
fn ungrouped<'a>(query: &'a str, label: &str) -> Option<&'a str> {
    let query = query.strip_suffix(')')?.trim_end().strip_suffix(label)?;
    let query = query.trim_end().strip_suffix('(')?.trim_end();
    Some(query.strip_suffix("by")?.trim_end())
}

/// Whether the query is a single call of `sum`.
fn is_sum(query: &str) -> bool {
    let tokens = tokens(query).unwrap_or_default();
    let [(_, Token::Name("sum")), (_, Token::Sign("(")), rest @ ..] = tokens.as_slice() else {
        return false;
    };
    let mut depth = 1;
    let end = rest.iter().position(|(_, token)| {
        match token {
            Token::Sign("(") => depth += 1,
            Token::Sign(")") => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    end.is_some_and(|end| end + 1 == rest.len())
}

#[cfg(test)]
mod tests {
    use super::super::RuleSet;
    use super::*;

    /// The deployed adapter's rules, and prometheus-adapter's own example.
    const DEPLOYED: &str = include_str!("../../../../../deploy/components/rules/config.yaml");
    const EXAMPLE: &str = include_str!("sample.yaml");
    const PODS: Workload<'_> = Workload {
        namespace: "shop",
        pods: "web-[0-9]+",
    };

    fn rules(text: &str) -> RuleSet {
        RuleSet::parse(text).expect(text)
    }

    /// `expected`: every rule of objects that produces the metric, with the query for its history
    /// or the error.
    fn check(
        set: &RuleSet,
        metric: &str,
        selector: &str,
        further: &[&str],
        expected: &[(&str, &str)],
    ) {
        let selector = selector.parse().expect(selector);
        let further: Vec<_> = further.iter().map(|it| (*it).to_owned()).collect();
        let history = |rule: &super::super::Rule| {
            let query = rule.history_of_pods(metric, &selector, &further, PODS)?;
            let query = query.unwrap_or_else(|error| error.to_string());
            Some((rule.at.clone(), query))
        };
        let found: Vec<_> = set.custom.iter().filter_map(|rule| history(rule)).collect();
        let expected = expected
            .iter()
            .map(|(at, query)| ((*at).to_owned(), (*query).to_owned()));
        assert_eq!(found, expected.collect::<Vec<_>>(), "{metric} {selector}");
    }

    #[test]
    fn matchers_stand_in_a_fixed_order() {
        let query = r#"sum(rate(http_requests_total{namespace!="",pod!="",cluster="a",code="200",verb="GET",namespace="shop",pod=~"web-[0-9]+"}[2m]))"#;
        let set = rules(DEPLOYED);
        let (further, expected) = (&[r#"cluster="a""#], &[("rules[0]", query)]);
        check(
            &set,
            "http_requests",
            "code=200,verb=GET",
            further,
            expected,
        );
        for other in [
            "http_requests_total",
            "http_request",
            "xhttp_requests",
            "http",
        ] {
            check(&set, other, "", &[], &[]);
        }
    }

    #[test]
    fn the_series_of_a_metric_are_found_without_looking_for_them() {
        let of = |series: &str, matchers: &str| {
            format!(
                r#"sum(rate({series}{{{matchers},namespace="shop",pod=~"web-[0-9]+",container!="POD"}}[2m]))"#
            )
        };
        let contained = r#"container!="POD",namespace!="",pod!="""#;
        let expected = [
            (
                "rules[0]",
                &*of("container_cpu_usage_seconds_total", contained),
            ),
            ("rules[1]", &of("container_cpu_usage_total", contained)),
            ("rules[2]", &of("cpu_usage_total", r#"namespace!="""#)),
        ];
        check(&rules(EXAMPLE), "cpu_usage", "", &[], &expected);
    }

    /// `expected`: the query for the history of the metric `a`.
    fn check_rule(series: &str, name: &str, resources: &str, query: &str, expected: Option<&str>) {
        let text = format!(
            "rules: [{{seriesQuery: '{series}', name: {name}, resources: {resources}, metricsQuery: '{query}'}}]"
        );
        let expected = expected.map(|query| ("rules[0]", query));
        check(&rules(&text), "a", "", &[], expected.as_slice());
    }

    #[test]
    fn a_rule_is_for_the_metrics_that_it_makes() {
        let check = |series: &str, name: &str, expected: Option<&str>| {
            let expected = expected
                .map(|series| format!(r#"sum({series}{{namespace="shop",pod=~"web-[0-9]+"}})"#));
            let (resources, query) = (
                "{template: <<.Resource>>}",
                "sum(<<.Series>>{<<.LabelMatchers>>})",
            );
            check_rule(series, name, resources, query, expected.as_deref());
        };
        check("b", "{as: a}", Some("b"));
        check("b", "{}", None);
        check("{}", "{}", Some("a"));
        check("{}", "{matches: \"^(.*)_total$\"}", Some("a_total"));
        check("{}", "{matches: \"(.+)_total\"}", Some("a_total"));
        check("{__name__=~\"b.*\"}", "{matches: \"^(.*)_total$\"}", None);
        check("{}", "{matches: \"^([a-z]*)_total$\"}", None);
        check("{}", "{as: a}", None);
        check("{} or b", "{as: a}", None);
        check("{__name__=\"b\"}", "{as: a}", Some("b"));
    }

    #[test]
    fn labels_are_those_that_the_rule_says() {
        let query = "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)";
        let both = "{overrides: {ns: {resource: namespace}, name: {resource: pod}}}";
        let namespace = "{overrides: {ns: {resource: namespace}}}";
        let pod = "{overrides: {name: {resource: pod}}}";
        let by_value = "a{<<.LabelMatchers>>} + <<.LabelValuesByName.name>>";
        let no_label = "resources do not say which label has the namespace of pods";
        let gone = "names of deleted pods cannot be part of the query of this metric";
        for (resources, query, expected) in [
            (both, query, Some(r#"sum(a{ns="shop",name=~"web-[0-9]+"})"#)),
            (namespace, query, None),
            (pod, query, Some(no_label)),
            (both, by_value, Some(gone)),
        ] {
            check_rule("a", "{}", resources, query, expected);
        }
        let why = [(
            "rules[0]",
            "\"a/b\" is not the name of a label in Prometheus",
        )];
        check(&rules(DEPLOYED), "http_requests", "a/b=c", &[], &why);
    }

    #[test]
    fn external_metrics_are_of_the_namespace_unless_the_rule_says_otherwise() {
        let check = |resources: &str, query: &str, expected: &str| {
            let rule = format!(
                "{{seriesQuery: 'q{{x=\"y\"}}', resources: {resources}, metricsQuery: '{query}'}}"
            );
            let set = rules(&format!("externalRules: [{rule}]"));
            let selector = "name=a".parse().expect("a selector");
            let further = ["c!=\"\"".to_owned()];
            let found = set.external[0].history_of_external("q", &selector, &further, "shop");
            assert_eq!(found, Some(Ok(expected.to_owned())), "{resources}");
        };
        let sum = "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)";
        let own = "{overrides: {ns: {resource: namespace}}}";
        let plain = "<<.Series>>{<<.LabelMatchers>>}";
        for (resources, query, expected) in [
            (
                "{}",
                sum,
                r#"sum(q{x="y",c!="",name="a",namespace="shop"})"#,
            ),
            (
                "{namespaced: false}",
                sum,
                r#"sum(q{x="y",c!="",name="a"})"#,
            ),
            (own, plain, r#"sum(q{x="y",c!="",name="a",ns="shop"})"#),
        ] {
            check(resources, query, expected);
        }
    }

    #[test]
    fn every_query_becomes_one_sum() {
        let cases = r#"
            sum(rate(x{a=")"}[2m])) by (pod) => sum(rate(x{a=")"}[2m]))
            sum (x)  by( pod ) => sum (x)
            sum(x) => sum(x)
            x => sum(x)
            avg(x) by (pod) => sum(avg(x) by (pod))
            sum(x) by (pod, container) => sum(sum(x) by (pod, container))
            sum(x) by (pod) / sum(y) by (pod) => sum(sum(x) by (pod) / sum(y) by (pod))
            sum(x) / sum(y) => sum(sum(x) / sum(y))
            sum(x{a='\')'}) + 1 => sum(sum(x{a='\')'}) + 1)
            sum by (pod) (x) => sum(sum by (pod) (x))
            sum_over_time(x[5m]) => sum(sum_over_time(x[5m]))
            sum(x => sum(sum(x)
        "#;
        for line in cases.trim().lines() {
            let (query, expected) = line.trim().split_once(" => ").expect(line);
            assert_eq!(total(query, "pod"), expected, "{query}");
        }
    }
}

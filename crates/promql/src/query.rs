//! Queries for the usage and the labels of pods.
//!
//! CPU usage is the rate of a counter as in upstream
//! (`recommender/input/history/history_provider.go`), or the mean of a gauge of cores. Memory usage
//! is the maximum between two points; upstream takes the value at each point and misses peaks in
//! between. Several series of one container (of a restarted container, of two replicas of the
//! store) are combined by their maximum.

use super::confine::{Token, tokens};
use super::duration::Step;
use super::usage_series::{PodLabelSeries, UsageSeries};

/// Limit that the response to a query exceeds. A smaller query may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    Time,
    /// Number of points, series or bytes.
    Size,
}

pub fn usage_selector(series: &UsageSeries, namespace: Option<&str>) -> String {
    let job = Some(&series.job).filter(|job| !job.is_empty());
    let mut matchers = Vec::from_iter(job.map(|job| matcher("job", "=", job)));
    matchers.extend([
        matcher(&series.pod_label, "!=", ""),
        matcher(&series.container_label, "!=", "POD"),
        matcher(&series.container_label, "!=", ""),
    ]);
    matchers.extend(namespace.map(|namespace| matcher(&series.namespace_label, "=", namespace)));
    format!("{}{{{}}}", series.metric, matchers.join(","))
}

/// The maximum of a query over the series of each container.
fn max_by_container(series: &UsageSeries, query: &str) -> String {
    let labels = [
        &*series.namespace_label,
        &series.pod_label,
        &series.container_label,
    ];
    format!("max by ({}) ({query})", labels.join(","))
}

/// The usage of all containers of a namespace: cores or bytes.
pub fn usage(series: &UsageSeries, namespace: &str, step: Step) -> String {
    let selector = usage_selector(series, Some(namespace));
    let function = match (series.is_counter, series.metric.contains("memory")) {
        (true, _) => "rate",
        (false, true) => "max_over_time",
        (false, false) => "avg_over_time",
    };
    max_by_container(series, &format!("{function}({selector}[{step}])"))
}

/// The usage of a workload as one series: cores or bytes, summed over pods whose names match a
/// regular expression.
///
/// CPU is the current rate over the last two points within three minutes, as in Crane
/// (`pkg/utils/expression_prom_default.go`).
pub fn workload_usage(series: &UsageSeries, namespace: &str, pods: &str) -> String {
    let selector = usage_selector(series, Some(namespace));
    let of_pods = matcher(&series.pod_label, "=~", pods);
    let selector = format!("{},{of_pods}}}", selector.trim_end_matches('}'));
    let usage = if series.is_counter {
        format!("irate({selector}[3m])")
    } else {
        selector
    };
    format!("sum({})", max_by_container(series, &usage))
}

/// Selector of pod label series; `None` unless the query is a plain selector, open to matchers.
pub fn pod_label_selector(series: &PodLabelSeries, namespace: Option<&str>) -> Option<String> {
    let query = without_range(&series.query);
    let namespace = namespace.map(|namespace| matcher(&series.namespace_label, "=", namespace));
    let (metric, matchers) = match query.split_once('{') {
        None => (query, ""),
        Some((metric, rest)) => {
            let inner = rest
                .strip_suffix('}')
                .filter(|inner| !has_braces_outside_quotes(inner))?;
            (metric, inner.trim().trim_end_matches(','))
        }
    };
    let is_plain = is_metric_name(metric) || (metric.is_empty() && !matchers.is_empty());
    let own = Some(matchers.to_owned()).filter(|matchers| !matchers.is_empty());
    let matchers: Vec<String> = own.into_iter().chain(namespace).collect();
    is_plain.then(|| format!("{metric}{{{}}}", matchers.join(",")))
}

/// Pod label series of a namespace, with a point wherever they exist within a step.
pub fn pod_labels(series: &PodLabelSeries, namespace: &str, step: Step) -> String {
    match pod_label_selector(series, Some(namespace)) {
        Some(selector) => format!("last_over_time({selector}[{step}])"),
        None => without_range(&series.query).to_owned(),
    }
}

/// Upstream needs a range at the end for its instant query. Range queries do not.
fn without_range(query: &str) -> &str {
    let query = query.trim();
    let range = query.strip_suffix(']').and_then(|rest| rest.rfind('['));
    range.map_or(query, |start| query[..start].trim_end())
}

fn has_braces_outside_quotes(text: &str) -> bool {
    let is_brace = |(_, token): &(usize, Token)| matches!(token, Token::Sign("{" | "}"));
    tokens(text).is_ok_and(|tokens| tokens.iter().any(is_brace))
}

/// A label matcher with an escaped value. `operator` is one of `=`, `!=`, `=~`, `!~`.
pub fn matcher(label: &str, operator: &str, value: &str) -> String {
    format!("{label}{operator}{}", quoted(value))
}

/// A text as a double-quoted `PromQL` string.
pub(super) fn quoted(text: &str) -> String {
    format!(
        "\"{}\"",
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    )
}

/// The sum over the series of a metric with these label matchers.
///
/// The names are validated: they come from user objects and become part of the expression.
pub fn sum<'a>(
    metric: &str,
    matchers: impl IntoIterator<Item = (&'a str, &'static str, String)>,
) -> Result<String, NameError> {
    if !is_metric_name(metric) {
        return Err(NameError::Metric(in_short(metric)));
    }
    let checked = |(label, operator, value): (&str, _, String)| {
        if is_label_name(label) {
            Ok(matcher(label, operator, &value))
        } else {
            Err(NameError::Label(in_short(label)))
        }
    };
    let matchers = matchers
        .into_iter()
        .map(checked)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(format!("sum({metric}{{{}}})", matchers.join(",")))
}

/// Name that Prometheus does not accept without quotes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("{0:?} is not the name of a metric in Prometheus")]
    Metric(String),
    #[error("{0:?} is not the name of a label in Prometheus")]
    Label(String),
}

fn in_short(name: &str) -> String {
    name.chars().take(100).collect()
}

/// Whether this is a valid label name without quotes.
pub fn is_label_name(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether this is a valid metric name without quotes.
pub fn is_metric_name(text: &str) -> bool {
    is_label_name(&text.replace(':', "_"))
}

/// A regular expression that matches exactly this text.
pub fn literal(text: &str) -> String {
    let mut literal = String::with_capacity(text.len());
    for letter in text.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            literal.push('\\');
        }
        literal.push(letter);
    }
    literal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage_series::{PodLabelSettings, UsageSettings};

    fn hour() -> Step {
        "1h".parse().expect("a duration")
    }

    #[test]
    fn usage_is_asked_for_per_container_of_a_namespace() {
        let settings = UsageSettings::default();
        let check = |series: &UsageSeries, expected: &str| {
            assert_eq!(usage(series, "shop", hour()), expected);
        };
        check(
            &settings.cpu_candidates()[0],
            "max by (namespace,pod_name,name) (rate(container_cpu_usage_seconds_total{job=\"kubernetes-cadvisor\",\
             pod_name!=\"\",name!=\"POD\",name!=\"\",namespace=\"shop\"}[1h]))",
        );
        check(
            &settings.memory_candidates()[1],
            "max by (namespace,pod,container) (max_over_time(container_memory_working_set_bytes{\
             pod!=\"\",container!=\"POD\",container!=\"\",namespace=\"shop\"}[1h]))",
        );
        check(
            &settings.cpu_candidates()[7],
            "max by (k8s_namespace_name,k8s_pod_name,k8s_container_name) (avg_over_time(container_cpu_usage{\
             k8s_pod_name!=\"\",k8s_container_name!=\"POD\",k8s_container_name!=\"\",k8s_namespace_name=\"shop\"}[1h]))",
        );
    }

    fn check_labels(query: &str, expected: &str) {
        let settings = PodLabelSettings {
            query: query.to_owned(),
            namespace_label: "ns".to_owned(),
            ..PodLabelSettings::default()
        };
        let found = pod_labels(&settings.candidates()[0], "shop", hour());
        assert_eq!(found, expected, "{query}");
    }

    #[test]
    fn pod_labels_are_asked_for_with_and_without_a_range() {
        let expected = "last_over_time(up{job=\"kubernetes-pods\",ns=\"shop\"}[1h])";
        check_labels("up{job=\"kubernetes-pods\"}", expected);
        check_labels("up{job=\"kubernetes-pods\"}[8d]", expected);
        check_labels(" up{job=\"kubernetes-pods\",} [8d:1h] ", expected);
        check_labels(
            "kube_pod_labels[8d]",
            "last_over_time(kube_pod_labels{ns=\"shop\"}[1h])",
        );
        check_labels(
            "{a=~\"x{2}\"}",
            "last_over_time({a=~\"x{2}\",ns=\"shop\"}[1h])",
        );
    }

    #[test]
    fn a_query_that_is_no_plain_selector_is_unchanged() {
        check_labels(
            "max by (pod) (up{a=\"1\"})[8d:1h]",
            "max by (pod) (up{a=\"1\"})",
        );
        check_labels("a{b=\"1\"} or c{d=\"2\"}", "a{b=\"1\"} or c{d=\"2\"}");
        check_labels("{}", "{}");
    }

    #[test]
    fn a_sum_has_checked_names_only() {
        let matchers = [("a", "=", "x\"".to_owned()), ("b", "=~", literal("c.d"))];
        assert_eq!(
            sum("job:m", matchers).as_deref(),
            Ok(r#"sum(job:m{a="x\"",b=~"c\\.d"})"#)
        );
        let hostile = "m{a=\"b\"}) or sum(n";
        for metric in ["", "9m", "m}", hostile, "m n", "s0-queue", "\u{e4}"] {
            assert_eq!(sum(metric, []), Err(NameError::Metric(metric.to_owned())));
        }
        for label in ["", "9a", "a:b", "x=\"\",y", "app.kubernetes.io/name", "a-b"] {
            let found = sum("m", [(label, "=", String::new())]);
            assert_eq!(found, Err(NameError::Label(label.to_owned())));
        }
        let error = sum(&"-".repeat(9000), []).expect_err("no name");
        assert!(error.to_string().len() < 200);
    }

    #[test]
    fn values_cannot_leave_their_quotes() {
        assert_eq!(matcher("a", "=", "x\"} or up\\"), r#"a="x\"} or up\\""#);
    }
}

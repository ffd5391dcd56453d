//! How the history of a metric is asked for.
//!
//! Usage of a workload is the sum over its pods, under the names that the store has it (`sources::prometheus`). Unlike in Crane a metric by name
//! and labels is supported, and everything but the user's own expression gives one series.

use api::prediction::{LabelQuery, MetricQuery, PredictionMetric, QueryKind, QueryOperator, TimeSeriesPrediction};
use kube::ResourceExt as _;
use sources::prometheus::{Layout, workload_usage};

use super::pods::PodNames;

/// The longest expression that is sent on: the store takes them in the address of a request.
const MAX_LENGTH: usize = 8000;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    /// An expression in `PromQL`.
    Expression(String),
    /// Usage of the pods of a workload, in cores or bytes.
    Workload {
        /// Namespace of the pods.
        namespace: String,
        /// Which pods.
        pods: PodNames,
        /// What of them.
        resource: Resource,
    },
}

/// A resource of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Cpu,
    Memory,
}

impl Query {
    /// The query that a metric's type names, or what is wrong with it.
    pub(super) fn of(object: &TimeSeriesPrediction, metric: &PredictionMetric) -> Result<Self, String> {
        let query = match metric.kind {
            QueryKind::ResourceQuery => {
                let name = metric.resource_query.as_deref().ok_or("resourceQuery is missing")?;
                resource(object, name)?
            }
            QueryKind::MetricQuery => {
                Self::Expression(by_labels(metric.metric_query.as_ref().ok_or("metricQuery is missing")?)?)
            }
            QueryKind::ExpressionQuery => {
                let query = metric.expression_query.as_ref().ok_or("expressionQuery is missing")?;
                Self::Expression(query.expression.trim().to_owned())
            }
        };
        match &query {
            Self::Expression(text) if text.is_empty() => Err("the expression is empty".to_owned()),
            Self::Expression(text) if text.len() > MAX_LENGTH => {
                Err(format!("the expression is longer than {MAX_LENGTH} characters"))
            }
            _ => Ok(query),
        }
    }

    /// The query as the store takes it. `layout` is under which names it has usage.
    pub(crate) fn text(&self, layout: &Layout) -> Result<String, String> {
        match self {
            Self::Expression(text) => Ok(text.clone()),
            Self::Workload { namespace, pods, resource } => {
                let (series, name) = match resource {
                    Resource::Cpu => (&layout.cpu, "CPU"),
                    Resource::Memory => (&layout.memory, "memory"),
                };
                let series = series.as_ref().ok_or_else(|| format!("Prometheus has no series of {name} usage"))?;
                Ok(workload_usage(series, namespace, &pods.expression()))
            }
        }
    }
}

fn resource(object: &TimeSeriesPrediction, name: &str) -> Result<Query, String> {
    let resource = match name {
        "cpu" => Resource::Cpu,
        "memory" => Resource::Memory,
        other => return Err(format!("resourceQuery: {other:?} is neither cpu nor memory")),
    };
    let target = &object.spec.target_ref;
    if target.kind.eq_ignore_ascii_case("Node") {
        return Ok(Query::Expression(node(&target.name, resource)));
    }
    let namespace = object.namespace().unwrap_or_default();
    if !target.namespace.is_empty() && target.namespace != namespace {
        return Err(format!("targetRef: namespace {:?} is not the one of the object", target.namespace));
    }
    Ok(Query::Workload { namespace, pods: PodNames::new(&target.kind, &target.name), resource })
}

/// Usage of a node as the node exporter tells it, as in Crane.
fn node(name: &str, resource: Resource) -> String {
    let instance = format!("instance=~{}", quoted(&format!("({})(:\\d+)?", escaped(name))));
    match resource {
        Resource::Cpu => format!(
            "sum(count(node_cpu_seconds_total{{mode=\"idle\",{instance}}}) by (mode, cpu)) \
             - sum(irate(node_cpu_seconds_total{{mode=\"idle\",{instance}}}[3m]))"
        ),
        Resource::Memory => {
            format!("sum(node_memory_MemTotal_bytes{{{instance}}} - node_memory_MemAvailable_bytes{{{instance}}})")
        }
    }
}

fn by_labels(query: &MetricQuery) -> Result<String, String> {
    let is_name = |name: &str, more: &str| {
        let mut letters = name.chars();
        let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_' || more.contains(letter);
        letters.next().is_some_and(is_letter) && letters.all(|letter| is_letter(letter) || letter.is_ascii_digit())
    };
    if !is_name(&query.metric_name, ":") {
        return Err(format!("metricQuery: {:?} is not the name of a metric", query.metric_name));
    }
    let matcher = |label: &LabelQuery| {
        if !is_name(&label.key, "") {
            return Err(format!("metricQuery: {:?} is not the name of a label", label.key));
        }
        let one = || label.value.first().map_or("", String::as_str);
        let (operator, value) = match label.operator {
            QueryOperator::Equal => ("=", one().to_owned()),
            QueryOperator::NotEqual => ("!=", one().to_owned()),
            QueryOperator::Matches => ("=~", one().to_owned()),
            QueryOperator::MatchesNot => ("!~", one().to_owned()),
            QueryOperator::In => ("=~", label.value.iter().map(|value| escaped(value)).collect::<Vec<_>>().join("|")),
        };
        Ok(format!("{}{operator}{}", label.key, quoted(&value)))
    };
    let matchers = query.labels.iter().map(matcher).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("sum({}{{{}}})", query.metric_name, matchers.join(",")))
}

/// A text that stands for itself in a regular expression.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sources::prometheus::UsageSettings;

    use super::*;

    fn check(target: &Value, metric: &Value, expected: Result<&str, &str>) {
        let mut metric = metric.clone();
        metric["resourceIdentifier"] = json!("id");
        let object = json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"predictionMetrics": [metric], "targetRef": target, "predictionWindowSeconds": 3600},
        });
        let object: TimeSeriesPrediction = serde_json::from_value(object).expect("an object");
        let settings = UsageSettings::default();
        let layout = Layout { cpu: settings.cpu_candidates().get(1).cloned(), memory: None, pod_labels: None };
        let text = Query::of(&object, &object.spec.prediction_metrics[0]).and_then(|query| query.text(&layout));
        assert_eq!(text.as_deref(), expected.map_err(str::to_owned).as_ref().map(|text| *text), "{metric}");
    }

    fn web() -> Value {
        json!({"kind": "Deployment", "name": "web"})
    }

    #[test]
    fn usage_of_a_workload_is_the_sum_over_its_pods() {
        let expected = "sum(max by (namespace,pod,container) (irate(container_cpu_usage_seconds_total{\
                        pod!=\"\",container!=\"POD\",container!=\"\",namespace=\"shop\",pod=~\"web-[a-z0-9]+-[a-z0-9]{5}\"}[3m])))";
        check(&web(), &json!({"type": "ResourceQuery", "resourceQuery": "cpu"}), Ok(expected));
        let memory = json!({"type": "ResourceQuery", "resourceQuery": "memory"});
        check(&web(), &memory, Err("Prometheus has no series of memory usage"));
        let node = json!({"kind": "Node", "name": "node-1.a"});
        let expected = "sum(node_memory_MemTotal_bytes{instance=~\"(node-1\\\\.a)(:\\\\d+)?\"} \
                        - node_memory_MemAvailable_bytes{instance=~\"(node-1\\\\.a)(:\\\\d+)?\"})";
        check(&node, &memory, Ok(expected));
    }

    #[test]
    fn a_metric_is_asked_for_by_its_labels() {
        let label = |operator: &str, value: &[&str]| json!({"key": "a", "operator": operator, "value": value});
        let of = |labels: Value| json!({"type": "MetricQuery", "metricQuery": {"metricName": "m", "labels": labels}});
        check(&web(), &of(json!([])), Ok("sum(m{})"));
        let labels = json!([label("=", &["x\"y"]), label("!~", &["b.*"]), label("in", &["c.d", "e"])]);
        check(&web(), &of(labels), Ok(r#"sum(m{a="x\"y",a!~"b.*",a=~"c\\.d|e"})"#));
        let wrong = json!({"type": "MetricQuery", "metricQuery": {"metricName": "m} or vector(1"}});
        check(&web(), &wrong, Err("metricQuery: \"m} or vector(1\" is not the name of a metric"));
    }

    #[test]
    fn what_cannot_be_asked_for_is_said() {
        check(
            &web(),
            &json!({"type": "ResourceQuery", "resourceQuery": "gpu"}),
            Err("resourceQuery: \"gpu\" is neither cpu nor memory"),
        );
        let expression = |text: &str| json!({"type": "ExpressionQuery", "expressionQuery": {"expression": text}});
        check(&web(), &expression(" sum(up) "), Ok("sum(up)"));
        check(&web(), &expression(" "), Err("the expression is empty"));
        check(&web(), &expression(&"x".repeat(9000)), Err("the expression is longer than 8000 characters"));
        let elsewhere = json!({"kind": "Deployment", "name": "web", "namespace": "bank"});
        let cpu = json!({"type": "ResourceQuery", "resourceQuery": "cpu"});
        check(&elsewhere, &cpu, Err("targetRef: namespace \"bank\" is not the one of the object"));
    }
}

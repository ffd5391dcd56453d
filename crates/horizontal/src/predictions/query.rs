//! Queries for the history of a metric.
//!
//! Usage of a workload is the sum over its pods, in the series that the store has
//! (`promql::Layout`). Unlike in Crane a query by metric name and labels works, and any query
//! except a user's expression gives one series. Queries are confined to the series that the
//! prediction may read (`access`).

use api::prediction::{
    LabelQuery, MetricQuery, PredictionMetric, QueryKind, QueryOperator, TimeSeriesPrediction,
};
use kube::ResourceExt as _;
use promql::{Layout, literal, matcher, sum, workload_usage};

use super::access::{Expression, ObjectAccess};
use crate::pod_name_pattern::PodNamePattern;

/// Maximum length of an expression: it is sent in the URL of a request.
const MAX_LENGTH: usize = 8000;

const MAX_NAME: usize = 253;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    Expression(Expression),
    /// Usage of the pods of a workload, in cores or bytes.
    Workload {
        namespace: String,
        pods: PodNamePattern,
        resource: Resource,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// CPU in cores.
    Cpu,
    /// Memory in bytes.
    Memory,
}

impl Query {
    /// Returns the query of a metric, confined to the series that the prediction may read.
    pub(super) fn of(
        object: &TimeSeriesPrediction,
        metric: &PredictionMetric,
        access: &ObjectAccess,
    ) -> Result<Self, String> {
        let query = match metric.kind {
            QueryKind::ResourceQuery => {
                let name = metric.resource_query.as_deref();
                return resource(object, name, access);
            }
            QueryKind::MetricQuery => {
                let query = metric.metric_query.as_ref();
                by_labels(query.ok_or("metricQuery is missing")?)?
            }
            QueryKind::ExpressionQuery => {
                let query = metric.expression_query.as_ref();
                let query = query.ok_or("expressionQuery is missing")?;
                query.expression.trim().to_owned()
            }
        };
        if query.is_empty() {
            return Err("the expression is empty".to_owned());
        }
        let check = |query: &str| {
            let is_short = query.len() <= MAX_LENGTH;
            let too_long = || format!("the expression is longer than {MAX_LENGTH} characters");
            is_short.then_some(()).ok_or_else(too_long)
        };
        check(&query)?;
        let query = access.expression(&metric.resource_identifier, query)?;
        check(&query.text)?;
        Ok(Self::Expression(query))
    }

    pub(super) fn text_bytes(&self) -> usize {
        match self {
            Self::Expression(Expression { text, confined_by }) => {
                text.len() + confined_by.as_ref().map_or(0, String::len)
            }
            // Names in Kubernetes are short.
            Self::Workload { .. } => 0,
        }
    }

    /// The query text. `layout` gives the series of usage in the store.
    pub fn text(&self, layout: &Layout) -> Result<String, String> {
        match self {
            Self::Expression(expression) => Ok(expression.text.clone()),
            Self::Workload {
                namespace,
                pods,
                resource,
            } => {
                let (series, name) = match resource {
                    Resource::Cpu => (&layout.cpu, "CPU"),
                    Resource::Memory => (&layout.memory, "memory"),
                };
                let series = series
                    .as_ref()
                    .ok_or_else(|| format!("Prometheus has no series of {name} usage"))?;
                Ok(workload_usage(series, namespace, &pods.expression()))
            }
        }
    }
}

fn resource(
    object: &TimeSeriesPrediction,
    name: Option<&str>,
    access: &ObjectAccess,
) -> Result<Query, String> {
    if object.spec.target_ref.name.len() > MAX_NAME {
        return Err(format!(
            "targetRef: the name is longer than {MAX_NAME} characters"
        ));
    }
    let resource = match name.ok_or("resourceQuery is missing")? {
        "cpu" => Resource::Cpu,
        "memory" => Resource::Memory,
        other => {
            return Err(format!(
                "resourceQuery: {other:?} is neither cpu nor memory"
            ));
        }
    };
    let target = &object.spec.target_ref;
    if target.kind.eq_ignore_ascii_case("Node") {
        access.nodes()?;
        return Ok(Query::Expression(Expression {
            text: node(&target.name, resource),
            confined_by: None,
        }));
    }
    let namespace = object.namespace().unwrap_or_default();
    if !target.namespace.is_empty() && target.namespace != namespace {
        return Err(format!(
            "targetRef: namespace {:?} is not the one of the object",
            target.namespace
        ));
    }
    Ok(Query::Workload {
        namespace,
        pods: PodNamePattern::new(&target.kind, &target.name),
        resource,
    })
}

/// Usage of a node in the series of the node exporter, as in Crane.
fn node(name: &str, resource: Resource) -> String {
    let instance = matcher("instance", "=~", &format!("({})(:\\d+)?", literal(name)));
    match resource {
        Resource::Cpu => format!(
            "sum(count(node_cpu_seconds_total{{mode=\"idle\",{instance}}}) by (mode, cpu)) \
             - sum(irate(node_cpu_seconds_total{{mode=\"idle\",{instance}}}[3m]))"
        ),
        Resource::Memory => {
            format!(
                "sum(node_memory_MemTotal_bytes{{{instance}}} - node_memory_MemAvailable_bytes{{{instance}}})"
            )
        }
    }
}

/// Pattern of these values.
pub(crate) fn any_of(values: &[String]) -> String {
    let values: Vec<_> = values.iter().map(|value| literal(value)).collect();
    values.join("|")
}

fn by_labels(query: &MetricQuery) -> Result<String, String> {
    let matcher = |label: &'_ LabelQuery| {
        let one = || label.value.first().cloned().unwrap_or_default();
        match label.operator {
            QueryOperator::Equal => ("=", one()),
            QueryOperator::NotEqual => ("!=", one()),
            QueryOperator::Matches => ("=~", one()),
            QueryOperator::MatchesNot => ("!~", one()),
            QueryOperator::In => ("=~", any_of(&label.value)),
        }
    };
    let matchers = query.labels.iter().map(|label| {
        let (operator, value) = matcher(label);
        (label.key.as_str(), operator, value)
    });
    sum(&query.metric_name, matchers).map_err(|error| format!("metricQuery: {error}"))
}

#[cfg(test)]
mod tests {
    use promql::UsageSettings;
    use serde_json::{Value, json};

    use super::super::QueryScope;
    use super::*;

    fn check(target: &Value, metric: &Value, expected: Result<&str, &str>) {
        check_in(QueryScope::Cluster, target, metric, expected);
    }

    fn check_in(scope: QueryScope, target: &Value, metric: &Value, expected: Result<&str, &str>) {
        let mut metric = metric.clone();
        metric["resourceIdentifier"] = json!("id");
        let object = json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"predictionMetrics": [metric], "targetRef": target, "predictionWindowSeconds": 3600},
        });
        let object: TimeSeriesPrediction = serde_json::from_value(object).expect("an object");
        let settings = UsageSettings::default();
        let layout = Layout {
            cpu: settings.cpu_candidates().get(1).cloned(),
            memory: None,
            pod_labels: None,
        };
        let mut access = ObjectAccess::to_namespace("shop");
        access.scope = scope;
        let query = Query::of(&object, &object.spec.prediction_metrics[0], &access);
        let text = query.and_then(|query| query.text(&layout));
        let text = text.as_deref().map_err(String::as_str);
        assert_eq!(text, expected, "{metric}");
    }

    fn web() -> Value {
        json!({"kind": "Deployment", "name": "web"})
    }

    fn resource(name: &str) -> Value {
        json!({"type": "ResourceQuery", "resourceQuery": name})
    }

    fn named(name: &str, labels: &Value) -> Value {
        json!({"type": "MetricQuery", "metricQuery": {"metricName": name, "labels": labels}})
    }

    fn expression(text: &str) -> Value {
        json!({"type": "ExpressionQuery", "expressionQuery": {"expression": text}})
    }

    const TOO_LONG: &str = "the expression is longer than 8000 characters";
    const CPU: &str = "sum(max by (namespace,pod,container) (irate(container_cpu_usage_seconds_total{\
                       pod!=\"\",container!=\"POD\",container!=\"\",namespace=\"shop\",pod=~\"web-[a-z0-9]+-[a-z0-9]{5}\"}[3m])))";

    #[test]
    fn usage_of_a_workload_is_the_sum_over_its_pods() {
        check(&web(), &resource("cpu"), Ok(CPU));
        let memory = resource("memory");
        check(
            &web(),
            &memory,
            Err("Prometheus has no series of memory usage"),
        );
        let node = json!({"kind": "Node", "name": "node-1.a"});
        let expected = "sum(node_memory_MemTotal_bytes{instance=~\"(node-1\\\\.a)(:\\\\d+)?\"} \
                        - node_memory_MemAvailable_bytes{instance=~\"(node-1\\\\.a)(:\\\\d+)?\"})";
        check(&node, &memory, Ok(expected));
    }

    #[test]
    fn a_metric_query_selects_by_labels() {
        let label = |operator: &str, value: &[&str]| json!({"key": "a", "operator": operator, "value": value});
        check(&web(), &named("m", &json!([])), Ok("sum(m{})"));
        let labels = [
            label("=", &["x\"y"]),
            label("!~", &["b.*"]),
            label("in", &["c.d", "e"]),
        ];
        let expected = r#"sum(m{a="x\"y",a!~"b.*",a=~"c\\.d|e"})"#;
        check(&web(), &named("m", &json!(labels)), Ok(expected));
        let why = "metricQuery: \"m} or vector(1\" is not the name of a metric in Prometheus";
        check(&web(), &named("m} or vector(1", &json!([])), Err(why));
        let wrong = json!([{"key": "a=\"\",b", "operator": "=", "value": [""]}]);
        let why = r#"metricQuery: "a=\"\",b" is not the name of a label in Prometheus"#;
        check(&web(), &named("m", &wrong), Err(why));
    }

    #[test]
    fn every_kind_of_query_is_confined_to_the_namespace() {
        let check = |target: &Value, metric: &Value, expected| {
            check_in(QueryScope::Namespace, target, metric, expected);
        };
        check(&web(), &expression("up"), Ok(r#"up{namespace="shop"}"#));
        let hostile =
            r#"sum by (namespace, le) (rate(payment_amount_bucket{namespace="bank"}[5m]))"#;
        let confined = r#"sum by (namespace,le)(rate(payment_amount_bucket{namespace="bank",namespace="shop"}[5m]))"#;
        check(&web(), &expression(hostile), Ok(confined));
        let refused = "the expression cannot be confined to the namespace: character 4: expected an operator, found up";
        check(&web(), &expression("up up"), Err(refused));
        check(&web(), &expression(" "), Err("the expression is empty"));
        let long = format!("{}a", "a+".repeat(3000));
        check(&web(), &expression(&long), Err(TOO_LONG));
        let labels = json!([{"key": "namespace", "operator": "=", "value": ["bank"]}]);
        let confined = r#"sum(m{namespace="bank",namespace="shop"})"#;
        check(&web(), &named("m", &labels), Ok(confined));
        let cpu = resource("cpu");
        let why = "targetRef: nodes are predicted only in namespaces that have the label plimsoll.dev/prediction-query-scope=cluster";
        check(&json!({"kind": "Node", "name": "node-1"}), &cpu, Err(why));
        check(&web(), &cpu, Ok(CPU));
    }

    #[test]
    fn invalid_queries_have_a_reason() {
        let why = "resourceQuery: \"gpu\" is neither cpu nor memory";
        check(&web(), &resource("gpu"), Err(why));
        check(&web(), &expression(" sum(up) "), Ok("sum(up)"));
        check(&web(), &expression(" "), Err("the expression is empty"));
        check(&web(), &expression(&"x".repeat(9000)), Err(TOO_LONG));
        let elsewhere = json!({"kind": "Deployment", "name": "web", "namespace": "bank"});
        let why = "targetRef: namespace \"bank\" is not the one of the object";
        check(&elsewhere, &resource("cpu"), Err(why));
    }
}

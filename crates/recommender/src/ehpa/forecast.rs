//! What is to be predicted for an effective autoscaler, and how its history is asked for.
//!
//! CPU and memory of the pods are asked for as such; everything else by an expression, the user's where an annotation says one.
//! Source: gocrane/crane `pkg/controller/ehpa/predict.go`. Unlike there, an expression of ours always gives one series, of the right namespace.

use api::effective_hpa::{DEFAULT_PREDICTION_WINDOW_SECONDS, EffectiveHorizontalPodAutoscaler, MetricIdentifier};
use api::prediction::{
    Algorithm, ExpressionQuery, ObjectReference, PredictionMetric, QueryKind, TimeSeriesPrediction,
    TimeSeriesPredictionSpec,
};
use api::sizing_policy::{LabelOperator, LabelRequirement};
use kube::ResourceExt as _;
use kube::core::ObjectMeta;

use super::Seen;
use super::names::{self, query};
use super::predictable::{Predictable, predictable};
use crate::predict::escaped;
use crate::predict::pods::PodNames;

/// Whether anything is predicted.
pub(super) fn is_on(object: &EffectiveHorizontalPodAutoscaler) -> bool {
    algorithm(object).is_some() && !predictable(object).0.is_empty()
}

/// The metrics that are to be predicted and cannot be, each with the reason.
pub(super) fn unpredicted(object: &EffectiveHorizontalPodAutoscaler) -> Vec<String> {
    if algorithm(object).is_some() { predictable(object).1 } else { Vec::new() }
}

fn algorithm(object: &EffectiveHorizontalPodAutoscaler) -> Option<&Algorithm> {
    object.spec.prediction.as_ref()?.prediction_algorithm.as_ref()
}

/// The prediction that an object owns; none if nothing is to be predicted.
pub(super) fn prediction(seen: &Seen) -> Option<TimeSeriesPrediction> {
    let object = seen.object;
    let algorithm = algorithm(object)?;
    let metrics: Vec<_> = predictable(object).0.iter().map(|metric| metric_of(object, metric, algorithm)).collect();
    if metrics.is_empty() {
        return None;
    }
    let window = object.spec.prediction.as_ref().and_then(|prediction| prediction.prediction_window_seconds);
    let target = &object.spec.scale_target_ref;
    let spec = TimeSeriesPredictionSpec {
        prediction_metrics: metrics,
        target_ref: ObjectReference {
            api_version: target.api_version.clone(),
            kind: target.kind.clone(),
            namespace: object.namespace().unwrap_or_default(),
            name: target.name.clone(),
            ..ObjectReference::default()
        },
        prediction_window_seconds: window.unwrap_or(DEFAULT_PREDICTION_WINDOW_SECONDS),
    };
    Some(TimeSeriesPrediction { metadata: metadata(seen), spec, status: None })
}

/// The adapter finds a prediction by what it is of.
fn metadata(seen: &Seen) -> ObjectMeta {
    let target = &seen.object.spec.scale_target_ref;
    let mut metadata = names::metadata(seen.object, seen.propagation);
    metadata.labels.get_or_insert_default().extend(
        [
            ("app.kubernetes.io/target-kind", target.kind.clone()),
            ("app.kubernetes.io/target-namespace", seen.object.namespace().unwrap_or_default()),
            ("app.kubernetes.io/target-name", target.name.clone()),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    metadata
}

fn metric_of(
    object: &EffectiveHorizontalPodAutoscaler,
    predictable: &Predictable,
    algorithm: &Algorithm,
) -> PredictionMetric {
    let identifier = &predictable.identifier;
    let own = query(object, identifier).map(str::to_owned);
    let expression = own.or_else(|| expression(object, predictable));
    let resource = predictable.metric.resource.as_ref().map(|source| source.name.clone());
    PredictionMetric {
        resource_identifier: identifier.clone(),
        kind: if expression.is_some() { QueryKind::ExpressionQuery } else { QueryKind::ResourceQuery },
        resource_query: resource.filter(|_| expression.is_none()),
        metric_query: None,
        expression_query: expression.map(|expression| ExpressionQuery { expression }),
        algorithm: algorithm.clone(),
    }
}

/// None for resources of whole pods.
fn expression(object: &EffectiveHorizontalPodAutoscaler, predictable: &Predictable) -> Option<String> {
    let metric = predictable.metric;
    let namespace = object.namespace().unwrap_or_default();
    let target = &object.spec.scale_target_ref;
    let pods = PodNames::new(&target.kind, &target.name);
    let pods = [matcher("namespace", "=", &namespace), matcher("pod", "=~", &pods.expression())];
    if let Some(source) = &metric.container_resource {
        let container = matcher("container", "=", &source.container);
        let matchers = [&pods[..], &[container]].concat().join(",");
        return Some(match source.name.as_str() {
            "cpu" => format!("sum(irate(container_cpu_usage_seconds_total{{{matchers}}}[3m]))"),
            _ => format!("sum(container_memory_working_set_bytes{{{matchers}}})"),
        });
    }
    if let Some(source) = &metric.pods {
        return Some(sum(&source.metric, &pods));
    }
    metric.external.as_ref().map(|source| sum(&source.metric, &[]))
}

fn sum(metric: &MetricIdentifier, others: &[String]) -> String {
    let labels = metric.selector.iter().flat_map(|selector| &selector.match_labels);
    let labels = labels.map(|(name, value)| matcher(name, "=", value));
    let expressions = metric.selector.iter().flat_map(|selector| &selector.match_expressions);
    let matchers: Vec<_> = labels.chain(expressions.map(required)).chain(others.iter().cloned()).collect();
    format!("sum({}{{{}}})", metric.name, matchers.join(","))
}

/// A label that is missing is an empty one to Prometheus.
fn required(requirement: &LabelRequirement) -> String {
    let LabelRequirement { key, operator, values } = requirement;
    let any_of = || values.iter().map(|value| escaped(value)).collect::<Vec<_>>().join("|");
    match operator {
        LabelOperator::In => matcher(key, "=~", &any_of()),
        LabelOperator::NotIn => matcher(key, "!~", &any_of()),
        LabelOperator::Exists => matcher(key, "!=", ""),
        LabelOperator::DoesNotExist => matcher(key, "=", ""),
    }
}

fn matcher(name: &str, operator: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}{operator}\"{value}\"")
}

//! `TimeSeriesPrediction` that an EHPA owns, with the queries for the histories of its metrics.
//!
//! CPU and memory of pods are resource queries. Any other metric is an expression: from an
//! annotation of the EHPA, else from a rule, else a sum. Source: gocrane/crane
//! `pkg/controller/ehpa/predict.go`. Unlike there, a sum always gives one series, of the right
//! namespace.

use std::collections::BTreeMap;

use api::ehpa::{
    DEFAULT_PREDICTION_WINDOW_SECONDS, EffectiveHorizontalPodAutoscaler, MetricIdentifier,
    MetricSpec, PredictionSummary,
};
use api::prediction::{
    Algorithm, ExpressionQuery, ObjectReference, PredictionMetric, QueryKind, TimeSeriesPrediction,
    TimeSeriesPredictionSpec,
};
use api::sizing_policy::{LabelOperator, LabelRequirement};
use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use promql::{matcher, sum};

use super::Observed;
use super::history_queries::Rules;
use super::names::{self, query};
use super::pod_ready_times::window_seconds;
use super::predictable_metrics::{Predictable, predictable};
use crate::pod_name_pattern::PodNamePattern;
use crate::predictions::{self, Annotations, Method, any_of};

/// Predicted metrics, each with its query; for each other metric its name and the reason.
pub(super) fn predicted<'a>(
    observed: &Observed<'a>,
) -> (Vec<(Predictable<'a>, PredictionMetric)>, Vec<String>) {
    let object = observed.object;
    let prediction = object.spec.prediction.as_ref();
    let Some(algorithm) = prediction.and_then(|it| it.prediction_algorithm.as_ref()) else {
        return (Vec::new(), Vec::new());
    };
    let (predictable, mut others) = predictable(object);
    let mut predicted = Vec::new();
    for metric in predictable {
        match metric_of(observed, &metric, algorithm) {
            Ok(query) => predicted.push((metric, query)),
            Err(why) => others.push(format!("{}: {why}", metric.identifier)),
        }
    }
    (predicted, others)
}

/// Whether rules may give the query for the history of a metric.
pub(super) fn is_by_rules(
    object: &EffectiveHorizontalPodAutoscaler,
    predictable: &Predictable,
) -> bool {
    let metric = predictable.metric;
    (metric.pods.is_some() || metric.external.is_some())
        && query(object, &predictable.identifier).is_none()
}

/// Desired prediction; `None` if no metric can be predicted.
pub(super) fn prediction(observed: &Observed) -> Option<TimeSeriesPrediction> {
    let object = observed.object;
    let metrics = predicted(observed).0.into_iter();
    let metrics: Vec<_> = metrics.map(|(_, query)| query).collect();
    if metrics.is_empty() {
        return None;
    }
    let window = object.spec.prediction.as_ref();
    let window = window.and_then(|prediction| prediction.prediction_window_seconds);
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
    Some(TimeSeriesPrediction {
        metadata: metadata(observed),
        spec,
        status: None,
    })
}

/// Method and window of the prediction, for the status; `None` if no metric can be predicted.
pub(super) fn summary(observed: &Observed) -> Option<PredictionSummary> {
    let object = observed.object;
    let prediction = object.spec.prediction.as_ref()?;
    let algorithm = prediction.prediction_algorithm.as_ref()?;
    if predicted(observed).0.is_empty() {
        return None;
    }
    let longest = prediction
        .prediction_window_seconds
        .unwrap_or(DEFAULT_PREDICTION_WINDOW_SECONDS);
    let none = BTreeMap::new();
    let annotations = Annotations {
        own: observed
            .prediction
            .map_or(&none, |prediction| prediction.annotations()),
        owner: Some(object.annotations()),
    };
    // The conditions of the prediction report invalid annotations.
    let mut notes = Vec::new();
    let before = object.status.as_ref();
    let before = before.and_then(|status| status.prediction.as_ref());
    let before = before.and_then(|before| {
        let ready = u32::try_from(before.pod_ready_seconds?).ok()?;
        Some((ready, u32::try_from(before.window_seconds).ok()?))
    });
    // What was measured stays while no pod is known.
    let ready = observed.ready_seconds.or(before.map(|(ready, _)| ready));
    let before = before.map(|(_, window)| window);
    let measured = window_seconds(ready, before, longest.unsigned_abs());
    let method = predictions::method(algorithm, annotations, Some(measured), &mut notes);
    let seconds = |seconds: u32| i32::try_from(seconds).unwrap_or(i32::MAX);
    let (window, pod_ready) = match method {
        Method::Peak(config) => (seconds(config.window_seconds), ready),
        _ => (longest, None),
    };
    Some(PredictionSummary {
        method: method.name().to_owned(),
        window_seconds: window,
        pod_ready_seconds: pod_ready.map(seconds),
    })
}

/// The adapter finds a prediction by the labels of its target.
fn metadata(observed: &Observed) -> ObjectMeta {
    let target = &observed.object.spec.scale_target_ref;
    let mut metadata = names::metadata(observed.object, observed.propagation);
    metadata.labels.get_or_insert_default().extend(
        [
            ("app.kubernetes.io/target-kind", target.kind.clone()),
            (
                "app.kubernetes.io/target-namespace",
                observed.object.namespace().unwrap_or_default(),
            ),
            ("app.kubernetes.io/target-name", target.name.clone()),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    metadata
}

fn metric_of(
    observed: &Observed,
    predictable: &Predictable,
    algorithm: &Algorithm,
) -> Result<PredictionMetric, String> {
    let identifier = &predictable.identifier;
    let unknown = observed
        .rules
        .unknown()
        .filter(|_| is_by_rules(observed.object, predictable));
    let expression = match (query(observed.object, identifier), unknown) {
        (Some(own), _) => Some(own.to_owned()),
        // A plain sum could mean something else, for example of a counter.
        (None, Some(why)) => Some(before(observed, identifier).ok_or_else(|| why.to_owned())?),
        (None, None) => {
            expression(observed.object, observed.rules, predictable.metric).transpose()?
        }
    };
    let resource = predictable.metric.resource.as_ref();
    let resource = resource.map(|source| source.name.clone());
    Ok(PredictionMetric {
        resource_identifier: identifier.clone(),
        kind: if expression.is_some() {
            QueryKind::ExpressionQuery
        } else {
            QueryKind::ResourceQuery
        },
        resource_query: resource.filter(|_| expression.is_none()),
        metric_query: None,
        expression_query: expression.map(|expression| ExpressionQuery { expression }),
        algorithm: algorithm.clone(),
    })
}

/// The present query for the history of a metric of this workload.
fn before(observed: &Observed, identifier: &str) -> Option<String> {
    let (spec, target) = (
        &observed.prediction?.spec,
        &observed.object.spec.scale_target_ref,
    );
    let is_of_it = spec.target_ref.kind == target.kind && spec.target_ref.name == target.name;
    let mut metrics = spec.prediction_metrics.iter().filter(|_| is_of_it);
    let metric = metrics.find(|metric| metric.resource_identifier == identifier)?;
    Some(metric.expression_query.as_ref()?.expression.clone())
}

/// Whether a rule gives this query for the history of a metric.
pub(crate) fn is_by_rule(
    object: &EffectiveHorizontalPodAutoscaler,
    rules: &Rules,
    identifier: &str,
    expression: &str,
) -> bool {
    let metrics = predictable(object).0.into_iter();
    let mut rules = metrics
        .filter(|known| known.identifier == identifier)
        .filter_map(|known| by_rule(object, rules, known.metric));
    rules.any(|made| made.as_deref() == Ok(expression))
}

/// `None` for resources of whole pods, which need no expression.
fn expression(
    object: &EffectiveHorizontalPodAutoscaler,
    rules: &Rules,
    metric: &MetricSpec,
) -> Option<Result<String, String>> {
    let namespace = object.namespace().unwrap_or_default();
    let pods = || {
        [
            ("namespace", "=", namespace.clone()),
            ("pod", "=~", pod_names(object).expression()),
        ]
    };
    if let Some(source) = &metric.container_resource {
        let matchers = pods()
            .into_iter()
            .chain([("container", "=", source.container.clone())]);
        let matchers: Vec<_> = matchers
            .map(|(label, operator, value)| matcher(label, operator, &value))
            .collect();
        let matchers = matchers.join(",");
        return Some(Ok(match source.name.as_str() {
            "cpu" => format!("sum(irate(container_cpu_usage_seconds_total{{{matchers}}}[3m]))"),
            _ => format!("sum(container_memory_working_set_bytes{{{matchers}}})"),
        }));
    }
    by_rule(object, rules, metric).or_else(|| match (&metric.pods, &metric.external) {
        (Some(source), _) => Some(plain_sum(&source.metric, pods())),
        (None, Some(source)) => Some(plain_sum(&source.metric, [])),
        (None, None) => None,
    })
}

/// `None` if no rule produces the metric.
fn by_rule(
    object: &EffectiveHorizontalPodAutoscaler,
    rules: &Rules,
    metric: &MetricSpec,
) -> Option<Result<String, String>> {
    let namespace = object.namespace().unwrap_or_default();
    match (&metric.pods, &metric.external) {
        (Some(source), _) => rules.of_pods(&source.metric, &namespace, &pod_names(object)),
        (None, Some(source)) => rules.external(&source.metric, &namespace),
        (None, None) => None,
    }
}

fn pod_names(object: &EffectiveHorizontalPodAutoscaler) -> PodNamePattern {
    let target = &object.spec.scale_target_ref;
    PodNamePattern::new(&target.kind, &target.name)
}

fn plain_sum<'a>(
    metric: &'a MetricIdentifier,
    others: impl IntoIterator<Item = (&'a str, &'static str, String)>,
) -> Result<String, String> {
    let selector = metric.selector.iter();
    let labels = selector.clone().flat_map(|selector| &selector.match_labels);
    let labels = labels.map(|(name, value)| (name.as_str(), "=", value.clone()));
    let expressions = selector.flat_map(|selector| &selector.match_expressions);
    let matchers = labels.chain(expressions.map(required)).chain(others);
    sum(&metric.name, matchers).map_err(|error| error.to_string())
}

/// A missing label is an empty one in Prometheus.
fn required(requirement: &LabelRequirement) -> (&str, &'static str, String) {
    let LabelRequirement {
        key,
        operator,
        values,
    } = requirement;
    let (operator, value) = match operator {
        LabelOperator::In => ("=~", any_of(values)),
        LabelOperator::NotIn => ("!~", any_of(values)),
        LabelOperator::Exists => ("!=", String::new()),
        LabelOperator::DoesNotExist => ("=", String::new()),
    };
    (key, operator, value)
}

//! Metrics of an HPA with their current values, from its `spec` and `status`.

use std::collections::BTreeMap;

use scaling::{Predicted, window_maximum};
use serde_json::{Value, json};

use super::EhpaFacts;
use crate::json::{items, text};

const PREDICTION: &str = "crane_autoscaling_prediction";
/// External metric of cron schedules.
const CRON: &str = "crane_autoscaling_cron";
const MAX_METRICS: usize = 200;

/// The metrics of an HPA: `observed`, `predicted` or `schedule`, the name of the metric
/// (`CONTAINER/NAME` with a container), value and target.
pub(crate) fn hpa_metrics(hpa: &Value) -> Vec<Value> {
    let metrics = items(&hpa["spec"]["metrics"])
        .take(MAX_METRICS)
        .map(|metric| {
            let source = source(metric);
            let mut current = items(&hpa["status"]["currentMetrics"]);
            let current = current.find(|it| is_same(it, metric));
            let (kind, name) = kind_and_name(source);
            json!({
                "source": kind,
                "name": name,
                "current": current.and_then(|it| amount(&self::source(it)["current"])),
                "target": amount(&source["target"]),
                "predictedMaximum": null,
            })
        });
    metrics.collect()
}

/// The metrics of the HPA, and the predictions that it does not use, with the largest value of the
/// prediction's window, of the whole workload.
pub(super) fn metrics(facts: &EhpaFacts) -> Vec<Value> {
    let mut metrics = hpa_metrics(&serde_json::to_value(&facts.hpa).unwrap_or_default());
    for Forecast { name, maximum, .. } in forecasts(facts) {
        let mut found = metrics.iter_mut().filter(|it| it["source"] == "predicted");
        if let Some(metric) = found.find(|it| it["name"] == name) {
            metric["predictedMaximum"] = json!(maximum);
        } else {
            metrics.push(json!({
                "source": "predicted", "name": name, "current": null, "target": null,
                "predictedMaximum": maximum,
            }));
        }
    }
    metrics
}

/// The field of a metric that its type names.
fn metric_field(kind: &str) -> &'static str {
    match kind {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        _ => "external",
    }
}

fn source(metric: &Value) -> &Value {
    &metric[metric_field(text(&metric["type"]))]
}

fn is_same(status: &Value, spec: &Value) -> bool {
    let identity = |metric| {
        let source: &Value = source(metric);
        ["name", "container", "metric", "describedObject"].map(|field| source[field].clone())
    };
    status["type"] == spec["type"] && identity(status) == identity(spec)
}

fn kind_and_name(source: &Value) -> (&'static str, String) {
    let metric = &source["metric"];
    let identifier = || text(&metric["selector"]["matchLabels"]["resourceIdentifier"]).to_owned();
    match metric["name"].as_str() {
        Some(PREDICTION) => ("predicted", identifier()),
        Some(CRON) => ("schedule", identifier()),
        Some(name) => ("observed", name.to_owned()),
        None => match source["container"].as_str() {
            Some(container) => ("observed", format!("{container}/{}", text(&source["name"]))),
            None => ("observed", text(&source["name"]).to_owned()),
        },
    }
}

/// A target or current value, such as `48% (96m per pod)`.
fn amount(value: &Value) -> Option<String> {
    let utilization = value["averageUtilization"].as_i64();
    let average = value["averageValue"].as_str();
    Some(match (utilization, average, value["value"].as_str()) {
        (Some(percent), Some(average), _) => format!("{percent}% ({average} per pod)"),
        (Some(percent), None, _) => format!("{percent}%"),
        (None, Some(average), _) => format!("{average} per pod"),
        (None, None, Some(value)) => value.to_owned(),
        (None, None, None) => return None,
    })
}

/// The forecast of a predicted metric, for the whole workload.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Forecast {
    pub(crate) name: String,
    /// Times in seconds since 1970, and amounts, from now on; the sum over the series of the metric.
    pub(crate) samples: Vec<(i64, f64)>,
    pub(crate) window_seconds: i32,
    /// The largest value of the window, which the adapter serves.
    pub(crate) maximum: Option<f64>,
}

/// The forecasts of the prediction, with the values that the adapter serves.
pub(in crate::explain) fn forecasts(facts: &EhpaFacts) -> Vec<Forecast> {
    let EhpaFacts { ehpa, now, .. } = facts;
    let measured = ehpa.status.as_ref().and_then(|it| it.prediction.as_ref());
    let asked = ehpa.spec.prediction.as_ref();
    let asked = asked.and_then(|it| it.prediction_window_seconds);
    let window = measured.map(|it| it.window_seconds).or(asked);
    let window_seconds = window.unwrap_or(api::ehpa::DEFAULT_PREDICTION_WINDOW_SECONDS);
    let prediction = facts.prediction.as_ref();
    let status = prediction.and_then(|it| it.status.as_ref());
    let metrics = status.into_iter().flat_map(|it| &it.prediction_metrics);
    let metrics = metrics.take(MAX_METRICS);
    metrics
        .map(|metric| {
            let series = metric.prediction.iter().map(|series| {
                let samples = series.samples.iter();
                let points = samples.filter_map(|it| Some((it.timestamp, it.value.parse().ok()?)));
                points.filter(|(_, value): &(i64, f64)| value.is_finite())
            });
            let series: Vec<Vec<(i64, f64)>> = series.map(Iterator::collect).collect();
            let identifier = &metric.resource_identifier;
            let points = Predicted {
                identifier,
                ready: metric.ready,
                series: &series,
            };
            let maximum = window_maximum(&[points], identifier, now.as_second(), window_seconds);
            Forecast {
                name: identifier.clone(),
                samples: sum(&series, now.as_second()),
                window_seconds,
                maximum: maximum.ok(),
            }
        })
        .collect()
}

/// The sum over the series at each time from now on.
fn sum(series: &[Vec<(i64, f64)>], now: i64) -> Vec<(i64, f64)> {
    let mut sums = BTreeMap::new();
    for (time, amount) in series.iter().flatten().filter(|(time, _)| *time >= now) {
        *sums.entry(*time).or_insert(0.0) += amount;
    }
    sums.into_iter().collect()
}

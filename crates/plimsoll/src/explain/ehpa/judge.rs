//! Explanation of the replicas of an EHPA's workload from the objects, without I/O.

use api::condition::ConditionStatus;
use api::ehpa::{EffectiveHorizontalPodAutoscalerStatus, PREDICTION_READY, READY, ScaleStrategy};
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::EhpaFacts;
use super::metrics::metrics;
use crate::explain::lines::{MAX_EVENTS, conditions, events, notes, wait};
use crate::json::texts;

const MAX_SCALE_POINTS: usize = 100;

/// Numbers of pods. `specific` is `specificReplicas` of a preview.
#[derive(Clone, Copy, Serialize)]
struct Replicas {
    current: Option<i32>,
    desired: Option<i32>,
    min: i32,
    max: i32,
    specific: Option<i32>,
}

pub(in crate::explain) fn explain(facts: &EhpaFacts) -> Value {
    let EhpaFacts { ehpa, hpa, .. } = facts;
    let default = EffectiveHorizontalPodAutoscalerStatus::default();
    let status = ehpa.status.as_ref().unwrap_or(&default);
    let target = &ehpa.spec.scale_target_ref;
    let metrics = metrics(facts);
    let replicas = replicas(facts, status);
    let prediction = status.prediction.as_ref().map(|it| {
        let ready = it.pod_ready_seconds;
        json!({"method": it.method, "windowSeconds": it.window_seconds, "podReadySeconds": ready})
    });
    // Amounts per pod at which replicas are added.
    let points = status.scale_points.iter().take(MAX_SCALE_POINTS).map(|it| {
        json!({
            "resource": it.resource, "container": it.container,
            "averageRequest": it.average_request, "averageValue": it.average_value,
        })
    });
    json!({
        "namespace": ehpa.namespace(),
        "ehpa": ehpa.name_any(),
        "target": format!("{}/{}", target.kind, target.name),
        "strategy": format!("{:?}", ehpa.spec.effective_strategy()),
        "hpa": hpa.as_ref().map(kube::ResourceExt::name_any),
        "replicas": replicas,
        "lastScaleTime": status.last_scale_time,
        "prediction": prediction,
        "scalePoints": points.collect::<Vec<_>>(),
        "waits": waits(facts, status, replicas, &metrics),
        "metrics": metrics,
        "conditions": conditions(&status.conditions),
        "events": events(&facts.events, MAX_EVENTS),
        "notes": notes(facts.missing.iter(), "EHPAs", &facts.others),
    })
}

fn replicas(facts: &EhpaFacts, status: &EffectiveHorizontalPodAutoscalerStatus) -> Replicas {
    let spec = &facts.ehpa.spec;
    let hpa = facts.hpa.as_ref();
    let native = hpa.and_then(|hpa| hpa.status.as_ref());
    let min = hpa.and_then(|hpa| hpa.spec.min_replicas);
    let is_preview = spec.effective_strategy() == ScaleStrategy::Preview;
    Replicas {
        current: status.current_replicas.or_else(|| native?.current_replicas),
        desired: native
            .filter(|it| it.desired_replicas > 0 || it.last_scale_time.is_some())
            .map(|it| it.desired_replicas)
            .or(status.expect_replicas),
        min: min.unwrap_or_else(|| spec.effective_min_replicas()),
        max: spec.max_replicas,
        specific: spec.specific_replicas.filter(|_| is_preview),
    }
}

/// The reasons that the objects show.
fn waits(
    facts: &EhpaFacts,
    status: &EffectiveHorizontalPodAutoscalerStatus,
    replicas: Replicas,
    metrics: &[Value],
) -> Vec<Value> {
    let mut waits = Vec::new();
    let mut add = |reason: &str, message: String| waits.push(wait(reason, message));
    let spec = &facts.ehpa.spec;
    let desired = replicas.desired;
    match (spec.effective_strategy(), replicas.specific) {
        (ScaleStrategy::Preview, Some(specific)) => add(
            "Manual",
            format!("specificReplicas sets {specific} replicas, independent of metrics"),
        ),
        (ScaleStrategy::Preview, None) => {
            let effect = desired.map_or_else(String::new, |it| format!("; Auto would set {it}"));
            add(
                "DryRun",
                format!("the strategy Preview scales nothing{effect}"),
            );
        }
        (ScaleStrategy::Auto, _) => {}
    }
    match status.conditions.iter().find(|it| it.kind == READY) {
        Some(ready) if ready.status != ConditionStatus::True => {
            add("NotReady", format!("{}: {}", ready.reason, ready.message));
        }
        Some(_) => {}
        None => add(
            "NoStatus",
            "the recommender has not written a status of the EHPA; `plimsoll status` shows whether it runs".to_owned(),
        ),
    }
    if let Some(message) = prediction_missing(facts, status, metrics) {
        add("NoPrediction", message);
    }
    let native = native_conditions(facts, status);
    match &facts.hpa {
        None if facts.hpa_is_read => add("NoHpa", "the EHPA has no HPA".to_owned()),
        Some(_) if native.is_empty() => {
            let message = "the HPA has no conditions yet: its controller has not read its metrics";
            add("NoHpaStatus", message.to_owned());
        }
        _ => {}
    }
    for condition in &native {
        if let Some((reason, message)) = limit(condition, replicas) {
            add(reason, message);
        }
    }
    if waits.is_empty()
        && let Some(current) = replicas.current
        && desired == Some(current)
    {
        let message = format!("the HPA wants the {current} replicas that there are");
        waits.push(wait("AtDesiredReplicas", message));
    }
    waits
}

/// The conditions of the HPA; if it could not be read, those that the EHPA repeats.
fn native_conditions(
    facts: &EhpaFacts,
    status: &EffectiveHorizontalPodAutoscalerStatus,
) -> Vec<Value> {
    let Some(hpa) = &facts.hpa else {
        return conditions(&status.conditions);
    };
    let native = hpa.status.as_ref().and_then(|it| it.conditions.as_deref());
    conditions(native.unwrap_or_default())
}

/// The reason that a condition of the HPA is, with its message.
fn limit(condition: &Value, replicas: Replicas) -> Option<(&'static str, String)> {
    let Replicas { min, max, .. } = replicas;
    let is_true = condition["status"] == "True";
    let [kind, reason, message] = texts(condition, ["type", "reason", "message"]);
    let text = || format!("{reason}: {message}");
    match (kind, reason) {
        ("ScalingLimited", "TooManyReplicas") if is_true => Some((
            "MaxReplicas",
            format!("the metrics ask for more than maxReplicas {max}"),
        )),
        ("ScalingLimited", "TooFewReplicas") if is_true => Some((
            "MinReplicas",
            format!("the metrics ask for fewer than minReplicas {min}"),
        )),
        ("ScalingLimited", _) if is_true => Some(("ScalingLimited", text())),
        ("ScalingActive", _) if !is_true => Some(("ScalingActive", text())),
        // True with these reasons says that earlier metrics keep the replicas.
        ("AbleToScale", "ScaleDownStabilized" | "ScaleUpStabilized") => {
            Some(("AbleToScale", text()))
        }
        ("AbleToScale", _) if !is_true => Some(("AbleToScale", text())),
        _ => None,
    }
}

/// The reason why the HPA has no predicted metric though the EHPA asks for one.
fn prediction_missing(
    facts: &EhpaFacts,
    status: &EffectiveHorizontalPodAutoscalerStatus,
    metrics: &[Value],
) -> Option<String> {
    let wanted = facts.ehpa.spec.prediction.as_ref()?;
    wanted.prediction_algorithm.as_ref()?;
    let is_used = |it: &Value| it["source"] == "predicted" && !it["target"].is_null();
    let mut conditions = status.conditions.iter();
    let ready = conditions.find(|it| it.kind == PREDICTION_READY);
    match ready {
        Some(ready) if ready.status != ConditionStatus::True => Some(format!(
            "the HPA scales by observed metrics: {}: {}",
            ready.reason, ready.message
        )),
        _ if metrics.iter().any(is_used) => None,
        Some(_) => Some("no metric of the HPA is predicted by exactly one series".to_owned()),
        None => Some("the HPA scales by observed metrics: nothing is predicted yet".to_owned()),
    }
}

//! Explanation of the replicas of an EHPA's workload from the objects, without I/O.

use api::condition::ConditionStatus;
use api::ehpa::{EffectiveHorizontalPodAutoscalerStatus, PREDICTION_READY, READY, ScaleStrategy};
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;

use super::EhpaFacts;
use super::metrics::{Metric, metrics};
use crate::explain::lines::{Condition, EventLine, Wait, conditions, events, notes, plain};

const MAX_SCALE_POINTS: usize = 100;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::explain) struct EhpaExplanation {
    pub(in crate::explain) namespace: String,
    pub(in crate::explain) ehpa: String,
    pub(in crate::explain) target: String,
    /// `Auto` or `Preview`.
    pub(in crate::explain) strategy: String,
    pub(in crate::explain) hpa: Option<String>,
    pub(in crate::explain) replicas: Replicas,
    pub(in crate::explain) last_scale_time: Option<Timestamp>,
    pub(in crate::explain) prediction: Option<PredictionLine>,
    pub(in crate::explain) metrics: Vec<Metric>,
    pub(in crate::explain) scale_points: Vec<ScalePointLine>,
    /// Reasons why the replicas do not change.
    pub(in crate::explain) waits: Vec<Wait>,
    pub(in crate::explain) conditions: Vec<Condition>,
    /// The latest event first.
    pub(in crate::explain) events: Vec<EventLine>,
    /// Parts that are left out, with the reason, and further EHPAs of the target.
    pub(in crate::explain) notes: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(in crate::explain) struct Replicas {
    pub(in crate::explain) current: Option<i32>,
    pub(in crate::explain) desired: Option<i32>,
    pub(in crate::explain) min: i32,
    pub(in crate::explain) max: i32,
    /// `specificReplicas` of a preview.
    pub(in crate::explain) specific: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::explain) struct PredictionLine {
    pub(in crate::explain) method: String,
    pub(in crate::explain) window_seconds: i32,
    pub(in crate::explain) pod_ready_seconds: Option<i32>,
}

/// Amount per pod at which replicas are added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::explain) struct ScalePointLine {
    pub(in crate::explain) resource: String,
    pub(in crate::explain) container: Option<String>,
    pub(in crate::explain) average_request: String,
    pub(in crate::explain) average_value: String,
}

pub(in crate::explain) fn explain(facts: &EhpaFacts) -> EhpaExplanation {
    let EhpaFacts { ehpa, hpa, .. } = facts;
    let default = EffectiveHorizontalPodAutoscalerStatus::default();
    let status = ehpa.status.as_ref().unwrap_or(&default);
    let target = &ehpa.spec.scale_target_ref;
    let metrics = metrics(facts);
    let replicas = replicas(facts, status);
    let points = status.scale_points.iter().take(MAX_SCALE_POINTS);
    EhpaExplanation {
        namespace: plain(&ehpa.namespace().unwrap_or_default()),
        ehpa: plain(&ehpa.name_any()),
        target: plain(&format!("{}/{}", target.kind, target.name)),
        strategy: format!("{:?}", ehpa.spec.effective_strategy()),
        hpa: hpa.as_ref().map(|hpa| plain(&hpa.name_any())),
        replicas,
        last_scale_time: status.last_scale_time.as_ref().map(|time| time.0),
        prediction: status.prediction.as_ref().map(|it| PredictionLine {
            method: plain(&it.method),
            window_seconds: it.window_seconds,
            pod_ready_seconds: it.pod_ready_seconds,
        }),
        scale_points: points
            .map(|point| ScalePointLine {
                resource: plain(&point.resource),
                container: point.container.as_deref().map(plain),
                average_request: point.average_request.to_string(),
                average_value: point.average_value.to_string(),
            })
            .collect(),
        waits: waits(facts, status, replicas, &metrics),
        metrics,
        conditions: conditions(&status.conditions),
        events: events(&facts.events),
        notes: notes(facts.missing.iter(), "EHPAs", &facts.others),
    }
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
    metrics: &[Metric],
) -> Vec<Wait> {
    let mut waits = Vec::new();
    let mut wait = |reason, message: &str| waits.push(Wait::new(reason, message));
    let spec = &facts.ehpa.spec;
    let desired = replicas.desired;
    match (spec.effective_strategy(), replicas.specific) {
        (ScaleStrategy::Preview, Some(specific)) => wait(
            "Manual",
            &format!("specificReplicas sets {specific} replicas, independent of metrics"),
        ),
        (ScaleStrategy::Preview, None) => {
            let effect = desired.map_or_else(String::new, |it| format!("; Auto would set {it}"));
            let message = format!("the strategy Preview scales nothing{effect}");
            wait("DryRun", &message);
        }
        (ScaleStrategy::Auto, _) => {}
    }
    match status.conditions.iter().find(|it| it.kind == READY) {
        Some(ready) if ready.status != ConditionStatus::True => {
            wait("NotReady", &format!("{}: {}", ready.reason, ready.message));
        }
        Some(_) => {}
        None => wait(
            "NoStatus",
            "the recommender has not written a status of the EHPA; `plimsoll status` shows whether it runs",
        ),
    }
    if let Some(message) = prediction_missing(facts, status, metrics) {
        wait("NoPrediction", &message);
    }
    let native = native_conditions(facts, status);
    match &facts.hpa {
        None if facts.hpa_is_read => wait("NoHpa", "the EHPA has no HPA"),
        Some(_) if native.is_empty() => {
            let message = "the HPA has no conditions yet: its controller has not read its metrics";
            wait("NoHpaStatus", message);
        }
        _ => {}
    }
    for condition in &native {
        if let Some((reason, message)) = limit(condition, replicas) {
            wait(reason, &message);
        }
    }
    if waits.is_empty()
        && let Some(current) = replicas.current
        && desired == Some(current)
    {
        let message = format!("the HPA wants the {current} replicas that there are");
        waits.push(Wait::new("AtDesiredReplicas", &message));
    }
    waits
}

/// The conditions of the HPA; if it could not be read, those that the EHPA repeats.
fn native_conditions(
    facts: &EhpaFacts,
    status: &EffectiveHorizontalPodAutoscalerStatus,
) -> Vec<Condition> {
    let Some(hpa) = &facts.hpa else {
        return conditions(&status.conditions);
    };
    let native = hpa.status.as_ref().and_then(|it| it.conditions.as_deref());
    conditions(native.unwrap_or_default())
}

/// The reason that a condition of the HPA is, with its message.
fn limit(condition: &Condition, replicas: Replicas) -> Option<(&'static str, String)> {
    let Replicas { min, max, .. } = replicas;
    let is_true = condition.status == "True";
    let text = || format!("{}: {}", condition.reason, condition.message);
    match (condition.kind.as_str(), condition.reason.as_str()) {
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
    metrics: &[Metric],
) -> Option<String> {
    let wanted = facts.ehpa.spec.prediction.as_ref()?;
    wanted.prediction_algorithm.as_ref()?;
    let is_used = |it: &Metric| it.source == "predicted" && it.target.is_some();
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

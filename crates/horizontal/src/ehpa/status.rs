//! What is said of an effective autoscaler: its own condition, that of its prediction, and those of
//! its native autoscaler.
//!
//! Unlike in Crane, times of conditions move only with their status, and a condition goes with what
//! it was about.

use api::condition::{self, Condition, ConditionStatus};
use api::ehpa::{
    EffectiveHorizontalPodAutoscalerStatus, METRIC_RULES_USABLE, METRICS_PREDICTABLE,
    PREDICTION_READY, READY,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::predictable::Predictable;
use super::selection::own;
use super::{Observed, Problem, prediction};

/// Conditions of the native autoscaler that are passed on.
const NATIVE: [&str; 4] = [
    "AbleToScale",
    "ScalingActive",
    "ScalingLimited",
    "ScaledToZero",
];

/// The most characters of a message; the API server takes 32768.
const MOST_CHARACTERS: usize = 4000;

/// The status of an object with these problems. `scaled` says that it was scaled by hand just now.
pub fn status(
    observed: &Observed,
    problems: &[Problem],
    scaled: bool,
) -> EffectiveHorizontalPodAutoscalerStatus {
    let old = observed.object.status.clone().unwrap_or_default();
    let native = own(observed).and_then(|hpa| hpa.status.as_ref());
    let is_known = native
        .is_some_and(|status| status.desired_replicas > 0 || status.last_scale_time.is_some());
    let by_hpa = native.and_then(|status| status.last_scale_time.clone());
    let by_hand = scaled.then_some(Time(observed.now));
    EffectiveHorizontalPodAutoscalerStatus {
        expect_replicas: native
            .filter(|_| is_known)
            .map(|status| status.desired_replicas),
        current_replicas: observed.target.ok().map(|target| target.status_replicas),
        last_scale_time: [by_hand, by_hpa, old.last_scale_time]
            .into_iter()
            .flatten()
            .max_by_key(|time| time.0),
        conditions: conditions(observed, problems, old.conditions),
    }
}

/// Whether the condition `Ready` says this. A message that was cut is taken to say it.
pub fn says(status: Option<&EffectiveHorizontalPodAutoscalerStatus>, message: &str) -> bool {
    let ready = status.and_then(|status| {
        status
            .conditions
            .iter()
            .find(|condition| condition.kind == READY)
    });
    ready.is_some_and(|ready| {
        ready.message.contains(message) || ready.message.chars().count() >= MOST_CHARACTERS
    })
}

/// What people should be told, once for each generation: which metrics cannot be predicted.
pub fn news<'a>(
    old: Option<&EffectiveHorizontalPodAutoscalerStatus>,
    new: &'a EffectiveHorizontalPodAutoscalerStatus,
) -> Option<&'a str> {
    fn said(status: &EffectiveHorizontalPodAutoscalerStatus) -> Option<&Condition> {
        status
            .conditions
            .iter()
            .find(|condition| condition.kind == METRICS_PREDICTABLE)
    }
    let now = said(new)?;
    let before = old
        .and_then(said)
        .map(|condition| condition.observed_generation);
    (before != Some(now.observed_generation)).then_some(now.message.as_str())
}

fn conditions(
    observed: &Observed,
    problems: &[Problem],
    mut conditions: Vec<Condition>,
) -> Vec<Condition> {
    let mut set = |kind: &str, holds: ConditionStatus, reason: &str, message: &str| {
        let message: String = message.chars().take(MOST_CHARACTERS).collect();
        condition::set(&mut conditions, kind, holds, reason, &message, observed.now);
    };
    match problems {
        [] => set(
            READY,
            ConditionStatus::True,
            "EffectiveHorizontalPodAutoscalerReady",
            "Effective HPA is ready",
        ),
        [worst, ..] => {
            let messages: Vec<&str> = problems
                .iter()
                .map(|problem| problem.message.as_str())
                .collect();
            set(
                READY,
                ConditionStatus::False,
                worst.reason,
                &messages.join("; "),
            );
        }
    }
    let mut known = vec![READY];
    let (predicted, unpredicted) = prediction::predicted(observed);
    let prediction = observed.prediction.filter(|_| !predicted.is_empty());
    let predictions = prediction.and_then(|prediction| prediction.status.as_ref());
    if let Some(ready) =
        predictions.and_then(|status| status.conditions.iter().find(|ready| ready.kind == READY))
    {
        set(
            PREDICTION_READY,
            ready.status,
            &ready.reason,
            &ready.message,
        );
        known.push(PREDICTION_READY);
    }
    let native = own(observed).and_then(|hpa| hpa.status.as_ref()?.conditions.as_ref());
    for native in native.into_iter().flatten() {
        if let Some(kind) = NATIVE.into_iter().find(|kind| *kind == native.type_) {
            let holds = match native.status.as_str() {
                "True" => ConditionStatus::True,
                "False" => ConditionStatus::False,
                _ => ConditionStatus::Unknown,
            };
            let reason = native
                .reason
                .as_deref()
                .filter(|reason| !reason.is_empty())
                .unwrap_or("Unknown");
            set(
                kind,
                holds,
                reason,
                native.message.as_deref().unwrap_or_default(),
            );
            known.push(kind);
        }
    }
    if !unpredicted.is_empty() {
        set(
            METRICS_PREDICTABLE,
            ConditionStatus::False,
            "MetricsNotPredictable",
            &unpredicted.join("; "),
        );
        known.push(METRICS_PREDICTABLE);
    }
    let by_rules =
        |(metric, _): &(Predictable, _)| prediction::is_by_rules(observed.object, metric);
    if let Some(why) = observed
        .rules
        .error
        .as_deref()
        .filter(|_| predicted.iter().any(by_rules))
    {
        let message = format!("{why}; histories are asked for as before");
        set(
            METRIC_RULES_USABLE,
            ConditionStatus::False,
            "MetricRulesBroken",
            &message,
        );
        known.push(METRIC_RULES_USABLE);
    }
    conditions.retain(|condition| known.contains(&condition.kind.as_str()));
    // What was said of another generation is news.
    for condition in conditions
        .iter_mut()
        .filter(|condition| condition.kind == METRICS_PREDICTABLE)
    {
        condition.observed_generation = observed.object.metadata.generation;
    }
    conditions
}

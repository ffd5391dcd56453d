//! Status of an EHPA: its own condition, that of its prediction, and those of its HPA.
//!
//! Unlike in Crane, `lastTransitionTime` changes only with the status of a condition, and a
//! condition is removed with the object that it is about.

use api::condition::{self, Condition, ConditionStatus};
use api::ehpa::{
    EffectiveHorizontalPodAutoscalerStatus, METRIC_RULES_USABLE, METRICS_PREDICTABLE,
    PREDICTION_READY, READY, SCHEDULE_ACTIVE,
};
use api::prediction::PREDICTION_ACCURATE;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::crons;
use super::hpa_choice::own;
use super::predictable_metrics::Predictable;
use super::reasons::{
    EHPA_READY, METRIC_RULES_BROKEN, METRICS_NOT_PREDICTABLE, SCHEDULE_OPEN, SCHEDULES_CLOSED,
};
use super::scale_point::scale_points;
use super::{Observed, Problem, prediction};

/// Condition of an EHPA: copied from the HPA.
const ABLE_TO_SCALE: &str = "AbleToScale";
/// Condition of an EHPA: copied from the HPA.
const SCALING_ACTIVE: &str = "ScalingActive";
/// Condition of an EHPA: copied from the HPA.
const SCALING_LIMITED: &str = "ScalingLimited";
/// Condition of an EHPA: copied from the HPA.
const SCALED_TO_ZERO: &str = "ScaledToZero";

const NATIVE: [&str; 4] = [
    ABLE_TO_SCALE,
    SCALING_ACTIVE,
    SCALING_LIMITED,
    SCALED_TO_ZERO,
];

/// Maximum length of a message in characters. The API server accepts 32768.
const MAX_CHARACTERS: usize = 4000;

/// The status with these problems. `scaled`: the workload was scaled directly just now.
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
        prediction: prediction::summary(observed),
        scale_points: scale_points(observed).0,
        conditions: conditions(observed, problems, old.conditions),
    }
}

/// Whether the condition `Ready` contains a message. A truncated message counts as containing it.
pub fn ready_contains(
    status: Option<&EffectiveHorizontalPodAutoscalerStatus>,
    message: &str,
) -> bool {
    let ready = status.and_then(|status| find(&status.conditions, READY));
    ready.is_some_and(|ready| {
        ready.message.contains(message) || ready.message.chars().count() >= MAX_CHARACTERS
    })
}

/// Note of the event about metrics that cannot be predicted, once for each generation.
pub fn unpredictable_metrics<'a>(
    old: Option<&EffectiveHorizontalPodAutoscalerStatus>,
    new: &'a EffectiveHorizontalPodAutoscalerStatus,
) -> Option<&'a str> {
    let now = find(&new.conditions, METRICS_PREDICTABLE)?;
    let before = old.and_then(|old| find(&old.conditions, METRICS_PREDICTABLE));
    let before = before.map(|condition| condition.observed_generation);
    (before != Some(now.observed_generation)).then_some(now.message.as_str())
}

pub(super) fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

fn conditions(
    observed: &Observed,
    problems: &[Problem],
    mut conditions: Vec<Condition>,
) -> Vec<Condition> {
    let mut known = Vec::new();
    let mut set = |kind: &'static str, holds: ConditionStatus, reason: &str, message: &str| {
        let message: String = message.chars().take(MAX_CHARACTERS).collect();
        condition::set(&mut conditions, kind, holds, reason, &message, observed.now);
        known.push(kind);
    };
    let (status, reason, message) = readiness(problems);
    set(READY, status, reason, &message);
    let (predicted, unpredicted) = prediction::predicted(observed);
    let prediction = observed.prediction.filter(|_| !predicted.is_empty());
    let predictions = prediction.and_then(|prediction| prediction.status.as_ref());
    for (kind, ours) in [
        (READY, PREDICTION_READY),
        (PREDICTION_ACCURATE, PREDICTION_ACCURATE),
    ] {
        if let Some(found) = predictions.and_then(|status| find(&status.conditions, kind)) {
            set(ours, found.status, &found.reason, &found.message);
        }
    }
    let native = own(observed).and_then(|hpa| hpa.status.as_ref()?.conditions.as_ref());
    for native in native.into_iter().flatten() {
        if let Some(kind) = NATIVE.into_iter().find(|kind| *kind == native.type_) {
            let holds = match native.status.as_str() {
                "True" => ConditionStatus::True,
                "False" => ConditionStatus::False,
                _ => ConditionStatus::Unknown,
            };
            let reason = native.reason.as_deref().filter(|reason| !reason.is_empty());
            let message = native.message.as_deref().unwrap_or_default();
            set(kind, holds, reason.unwrap_or("Unknown"), message);
        }
    }
    if let Some((is_open, windows)) = crons::upcoming(observed.object, observed.now) {
        let (status, reason) = if is_open {
            (ConditionStatus::True, SCHEDULE_OPEN)
        } else {
            (ConditionStatus::False, SCHEDULES_CLOSED)
        };
        set(SCHEDULE_ACTIVE, status, reason, &windows);
    }
    if !unpredicted.is_empty() {
        let (status, message) = (ConditionStatus::False, unpredicted.join("; "));
        set(
            METRICS_PREDICTABLE,
            status,
            METRICS_NOT_PREDICTABLE,
            &message,
        );
    }
    let by_rules =
        |(metric, _): &(Predictable, _)| prediction::is_by_rules(observed.object, metric);
    let error = observed.rules.error.as_deref();
    if let Some(why) = error.filter(|_| predicted.iter().any(by_rules)) {
        let status = ConditionStatus::False;
        let message = format!("{why}; the previous queries stay in use");
        set(METRIC_RULES_USABLE, status, METRIC_RULES_BROKEN, &message);
    }
    conditions.retain(|condition| known.contains(&condition.kind.as_str()));
    // The generation shows whether an event was recorded.
    let mut all = conditions.iter_mut();
    if let Some(condition) = all.find(|condition| condition.kind == METRICS_PREDICTABLE) {
        condition.observed_generation = observed.object.metadata.generation;
    }
    conditions
}

fn readiness(problems: &[Problem]) -> (ConditionStatus, &'static str, String) {
    let Some(worst) = problems.first() else {
        let message = "Effective HPA is ready".to_owned();
        return (ConditionStatus::True, EHPA_READY, message);
    };
    let messages: Vec<_> = problems.iter().map(|it| it.message.as_str()).collect();
    (ConditionStatus::False, worst.reason, messages.join("; "))
}

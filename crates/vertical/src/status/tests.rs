//! Conditions of the status.

mod history;
mod recommendation;

use std::slice::from_ref;

use model::{ContainerRecommendation, Cpu, Memory, ResourceList};
use serde_json::{Value, json};

use super::*;
use crate::fixture;

const BEFORE: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-01-01T01:00:00Z";

fn object(spec: &Value, status: &Value) -> VerticalPodAutoscaler {
    fixture::autoscaler(
        "web",
        &json!({"metadata": {"generation": 7}, "spec": spec, "status": status}),
    )
    .object
}

fn recommend(millicores: i64) -> Recommendation {
    let target = ResourceList::of(
        Cpu::from_millicores(millicores),
        Memory::from_bytes(1 << 20),
    );
    Recommendation {
        containers: vec![ContainerRecommendation {
            container_name: "web".to_owned(),
            target,
            ..Default::default()
        }],
    }
}

fn published(millicores: Option<&str>) -> Value {
    let container = |cpu| json!({"containerName": "web", "target": {"cpu": cpu, "memory": "1Mi"}});
    match millicores {
        Some(cpu) => json!({"recommendation": {"containerRecommendations": [container(cpu)]}}),
        None => Value::Null,
    }
}

/// One pod that is measured; nothing is in the way.
fn input(object: &VerticalPodAutoscaler) -> StatusInput<'_> {
    StatusInput {
        object,
        unsupported: None,
        refused_annotation: None,
        pods: 1,
        recommendation: recommend(100),
        is_measured: true,
        may_be_measured_soon: false,
        history: HistoryState::Known,
        omits_containers: false,
        source_is_stale: Some(false),
    }
}

fn condition(kind: &str, status: &str, time: &str, reason: &str, message: &str) -> Value {
    let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": time});
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            condition[field] = json!(text);
        }
    }
    condition
}

fn no_pods(time: &str) -> Value {
    condition(
        "NoPodsMatched",
        "True",
        time,
        "NoPodsMatched",
        "No pods match this VPA object",
    )
}

fn provided(time: &str) -> Value {
    condition("RecommendationProvided", "True", time, "", "")
}

fn conditions_of(
    object: &VerticalPodAutoscaler,
    unsupported: Option<&str>,
    pods: usize,
    recommendation: Recommendation,
) -> Value {
    let input = StatusInput {
        unsupported,
        pods,
        recommendation,
        ..input(object)
    };
    let status = status(input, NOW.parse().expect("a time"));
    assert_eq!(status.observed_generation, 7);
    serde_json::to_value(status.conditions).expect("conditions")
}

fn check(
    old: &[Value],
    unsupported: Option<&str>,
    pods: usize,
    found: Option<i64>,
    expected: &[Value],
) {
    let object = object(
        &json!({}),
        &json!({"conditions": old, "observedGeneration": 1}),
    );
    let found = found.map(recommend).unwrap_or_default();
    assert_eq!(
        conditions_of(&object, unsupported, pods, found),
        json!(expected)
    );
}

#[test]
fn a_recommendation_is_provided_when_there_is_one() {
    check(&[], None, 3, Some(100), &[provided(NOW)]);
    check(
        &[],
        None,
        3,
        None,
        &[condition("RecommendationProvided", "False", NOW, "", "")],
    );
}

#[test]
fn missing_pods_are_reported_and_explain_a_missing_recommendation() {
    let missing = condition(
        "RecommendationProvided",
        "False",
        NOW,
        "NoPodsMatched",
        "No pods match this VPA object",
    );
    check(&[], None, 0, None, &[no_pods(NOW), missing]);
    check(&[], None, 0, Some(100), &[no_pods(NOW), provided(NOW)]);
    check(
        &[no_pods(BEFORE), provided(BEFORE)],
        None,
        1,
        Some(100),
        &[provided(BEFORE)],
    );
}

#[test]
fn a_target_that_cannot_be_used_is_reported_until_it_can() {
    let unsupported =
        |time: &str, message: &str| condition("ConfigUnsupported", "True", time, "", message);
    check(
        &[],
        Some("why"),
        1,
        Some(100),
        &[unsupported(NOW, "why"), provided(NOW)],
    );
    check(
        &[unsupported(BEFORE, "old")],
        Some("why"),
        1,
        Some(100),
        &[unsupported(BEFORE, "why"), provided(NOW)],
    );
    check(
        &[unsupported(BEFORE, "old")],
        None,
        1,
        Some(100),
        &[provided(NOW)],
    );
}

#[test]
fn a_refused_annotation_is_reported_until_it_is_right() {
    let check = |old: &[Value], refused_annotation: Option<&str>, expected: &[Value]| {
        let object = object(&json!({}), &json!({"conditions": old}));
        let input = StatusInput {
            refused_annotation,
            ..input(&object)
        };
        let status = status(input, NOW.parse().expect("a time"));
        assert_eq!(
            serde_json::to_value(status.conditions).expect("conditions"),
            json!(expected)
        );
    };
    let refused = |time| {
        condition(
            "AnnotationRefused",
            "True",
            time,
            "InvalidAnnotation",
            "why",
        )
    };
    check(&[], Some("why"), &[refused(NOW), provided(NOW)]);
    check(
        &[refused(BEFORE), provided(BEFORE)],
        Some("why"),
        &[refused(BEFORE), provided(BEFORE)],
    );
    check(
        &[refused(BEFORE), provided(BEFORE)],
        None,
        &[provided(BEFORE)],
    );
}

#[test]
fn conditions_of_others_stay_and_the_deprecated_one_goes() {
    let other = condition("FetchingHistory", "True", BEFORE, "x", "y");
    let deprecated = condition("ConfigDeprecated", "True", BEFORE, "", "");
    check(
        &[deprecated, other.clone()],
        None,
        1,
        Some(100),
        &[other, provided(NOW)],
    );
}

#[test]
fn a_silent_source_of_usage_is_reported_until_it_answers() {
    let silent = condition("SourceStale", "True", BEFORE, SILENT_REASON, SILENT_MESSAGE);
    let check = |old: &[Value], source_is_stale: Option<bool>, expected: &[Value]| {
        let object = object(&json!({}), &json!({"conditions": old}));
        let input = StatusInput {
            source_is_stale,
            ..input(&object)
        };
        let status = status(input, NOW.parse().expect("a time"));
        assert_eq!(
            serde_json::to_value(status.conditions).expect("conditions"),
            json!(expected)
        );
    };
    let provided = provided(BEFORE);
    check(
        &[provided.clone(), silent.clone()],
        Some(true),
        &[provided.clone(), silent.clone()],
    );
    check(
        &[provided.clone(), silent.clone()],
        None,
        &[provided.clone(), silent.clone()],
    );
    check(from_ref(&provided), None, from_ref(&provided));
    check(
        &[provided.clone(), silent],
        Some(false),
        from_ref(&provided),
    );
    let silent_now = condition("SourceStale", "True", NOW, SILENT_REASON, SILENT_MESSAGE);
    check(
        from_ref(&provided),
        Some(true),
        &[provided.clone(), silent_now],
    );
}

#[test]
fn the_same_findings_give_the_same_status() {
    let before = object(&json!({}), &json!({}));
    let input = |object| StatusInput {
        pods: 0,
        ..input(object)
    };
    let first = status(input(&before), BEFORE.parse().expect("a time"));
    let after = VerticalPodAutoscaler {
        status: Some(first.clone()),
        ..before.clone()
    };
    assert_eq!(status(input(&after), NOW.parse().expect("a time")), first);
}

//! Conditions of the status.

mod backfill;
mod recommendation;

use model::{ContainerRecommendation, Cpu, Memory, ResourceList};
use serde_json::{Value, json};

use super::*;
use crate::fixture;

const BEFORE: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-01-01T01:00:00Z";

fn object(spec: &Value, status: &Value) -> VerticalPodAutoscaler {
    let more = json!({"metadata": {"generation": 7}, "spec": spec, "status": status});
    fixture::vpa("web", &more).object
}

fn recommend(millicores: i64) -> Recommendation {
    let (cpu, memory) = (
        Cpu::from_millicores(millicores),
        Memory::from_bytes(1 << 20),
    );
    let container = ContainerRecommendation {
        container_name: "web".to_owned(),
        target: ResourceList::of(cpu, memory),
        ..Default::default()
    };
    Recommendation {
        containers: vec![container],
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
        unused_annotations: &[],
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

const NO_PODS: [&str; 2] = ["NoPodsMatched", "No pods match this VPA object"];

fn no_pods(time: &str) -> Value {
    condition("NoPodsMatched", "True", time, NO_PODS[0], NO_PODS[1])
}

fn provided(time: &str) -> Value {
    condition("RecommendationProvided", "True", time, "", "")
}

fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

/// Checks the conditions after these, with an input that is changed in some way.
#[track_caller]
fn check_input(old: &[Value], change: impl FnOnce(&mut StatusInput), expected: &[Value]) {
    let object = object(
        &json!({}),
        &json!({"conditions": old, "observedGeneration": 1}),
    );
    let mut input = input(&object);
    change(&mut input);
    let status = status(input, now());
    assert_eq!(status.observed_generation, 7);
    assert_eq!(json!(status.conditions), json!(expected));
}

#[track_caller]
fn check(old: &[Value], pods: usize, found: Option<i64>, expected: &[Value]) {
    let change = |input: &mut StatusInput| {
        input.pods = pods;
        input.recommendation = found.map(recommend).unwrap_or_default();
    };
    check_input(old, change, expected);
}

#[test]
fn a_recommendation_is_provided_when_there_is_one() {
    check(&[], 3, Some(100), &[provided(NOW)]);
    let missing = condition("RecommendationProvided", "False", NOW, "", "");
    check(&[], 3, None, &[missing]);
}

#[test]
fn missing_pods_are_reported_and_explain_a_missing_recommendation() {
    let missing = condition(
        "RecommendationProvided",
        "False",
        NOW,
        NO_PODS[0],
        NO_PODS[1],
    );
    check(&[], 0, None, &[no_pods(NOW), missing]);
    check(&[], 0, Some(100), &[no_pods(NOW), provided(NOW)]);
    let before = [no_pods(BEFORE), provided(BEFORE)];
    check(&before, 1, Some(100), &[provided(BEFORE)]);
}

#[test]
fn a_target_that_cannot_be_used_is_reported_until_it_can() {
    let check = |old: &[Value], unsupported: Option<&'static str>, expected: &[Value]| {
        check_input(old, |input| input.unsupported = unsupported, expected);
    };
    let unsupported =
        |time: &str, message: &str| condition("ConfigUnsupported", "True", time, "", message);
    check(&[], Some("why"), &[unsupported(NOW, "why"), provided(NOW)]);
    let before = [unsupported(BEFORE, "old")];
    check(
        &before,
        Some("why"),
        &[unsupported(BEFORE, "why"), provided(NOW)],
    );
    check(&before, None, &[provided(NOW)]);
}

#[test]
fn a_refused_annotation_is_reported_until_it_is_right() {
    let check = |old: &[Value], refused: Option<&'static str>, expected: &[Value]| {
        check_input(old, |input| input.refused_annotation = refused, expected);
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
    let before = [refused(BEFORE), provided(BEFORE)];
    check(&before, Some("why"), &before);
    check(&before, None, &[provided(BEFORE)]);
}

#[test]
fn unused_annotations_are_reported_until_they_are_gone_or_used() {
    let names = ["plimsoll.dev/sizing-a", "plimsoll.dev/sizing-b"].map(str::to_owned);
    let names: &'static [String] = Vec::from(names).leak();
    let unused = |time| {
        let message = "The sizing policy of this object does not use: \
                       plimsoll.dev/sizing-a, plimsoll.dev/sizing-b";
        condition(
            "AnnotationUnused",
            "True",
            time,
            "UnusedAnnotation",
            message,
        )
    };
    let before = [unused(BEFORE), provided(BEFORE)];
    check_input(
        &[],
        |input| input.unused_annotations = names,
        &[unused(NOW), provided(NOW)],
    );
    check_input(&before, |input| input.unused_annotations = names, &before);
    check_input(&before, |_| (), &[provided(BEFORE)]);
}

#[test]
fn conditions_of_others_stay_and_the_deprecated_one_goes() {
    let other = condition("FetchingHistory", "True", BEFORE, "x", "y");
    let deprecated = condition("ConfigDeprecated", "True", BEFORE, "", "");
    check(
        &[deprecated, other.clone()],
        1,
        Some(100),
        &[other, provided(NOW)],
    );
}

#[test]
fn a_silent_source_of_usage_is_reported_until_it_answers() {
    let check = |old: &[Value], is_stale: Option<bool>, expected: &[Value]| {
        check_input(old, |input| input.source_is_stale = is_stale, expected);
    };
    let silent = |time| condition("SourceStale", "True", time, SILENT_REASON, SILENT_MESSAGE);
    let heard = [provided(BEFORE)];
    let before = [provided(BEFORE), silent(BEFORE)];
    check(&before, Some(true), &before);
    check(&before, None, &before);
    check(&heard, None, &heard);
    check(&before, Some(false), &heard);
    check(&heard, Some(true), &[provided(BEFORE), silent(NOW)]);
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
    assert_eq!(status(input(&after), now()), first);
}

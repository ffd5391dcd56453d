//! Reviews of pods, of other objects, and of invalid bodies.

use admission::{AdmissionResource, AdmissionStatus, admit_unreviewed};
use serde_json::{Value, json};

use crate::fixture::{Fixture, ParsedDecision, merge, patch_in, pod, pod_review};

/// Expects the resource and the status of an ordinary pod's review merged with `over`.
fn check(over: &Value, resource: AdmissionResource, status: AdmissionStatus) {
    let fixture = Fixture::new().autoscaler("web", &json!({}));
    let mut review = pod_review(&pod(&json!({})));
    merge(&mut review, over);
    let decision = fixture.decide(review.to_string().as_bytes());
    assert_eq!(
        (decision.resource, decision.status),
        (resource, status),
        "{over}"
    );
    assert_eq!(decision.review["response"]["uid"], "u-1", "{over}");
    assert_eq!(decision.review["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(decision.review["kind"], "AdmissionReview");
    assert_eq!(
        patch_in(&decision.review).is_some(),
        status == AdmissionStatus::Applied,
        "{over}"
    );
}

#[test]
fn new_pods_are_patched_in_dry_runs_too() {
    check(&json!({}), AdmissionResource::Pod, AdmissionStatus::Applied);
    check(
        &json!({"request": {"dryRun": true}}),
        AdmissionResource::Pod,
        AdmissionStatus::Applied,
    );
    check(
        &json!({"request": {"options": {"kind": "CreateOptions"}, "userInfo": null}}),
        AdmissionResource::Pod,
        AdmissionStatus::Applied,
    );
}

#[test]
fn other_operations_on_pods_are_skipped() {
    for operation in ["UPDATE", "DELETE", "CONNECT", ""] {
        check(
            &json!({"request": {"operation": operation}}),
            AdmissionResource::Pod,
            AdmissionStatus::Skipped,
        );
    }
    check(
        &json!({"request": {"subResource": "eviction"}}),
        AdmissionResource::Unknown,
        AdmissionStatus::Skipped,
    );
    check(
        &json!({"request": {"resource": {"version": "v2"}}}),
        AdmissionResource::Unknown,
        AdmissionStatus::Skipped,
    );
}

#[test]
fn other_objects_are_skipped() {
    check(
        &json!({"request": {"resource": {"resource": "nodes"}}}),
        AdmissionResource::Unknown,
        AdmissionStatus::Skipped,
    );
    check(
        &json!({"request": {"resource": {"group": "apps"}}}),
        AdmissionResource::Unknown,
        AdmissionStatus::Skipped,
    );
    check(
        &json!({"request": {"resource": null}}),
        AdmissionResource::Unknown,
        AdmissionStatus::Skipped,
    );
}

#[test]
fn unparsable_pods_are_admitted() {
    for object in [
        json!(null),
        json!("pod"),
        json!([]),
        json!({"spec": 5}),
        json!({"spec": {"containers": [1]}}),
    ] {
        let over = json!({"request": {"object": object}});
        let mut review = pod_review(&pod(&json!({})));
        review["request"]["object"] = Value::Null;
        merge(&mut review, &over);
        let decision = Fixture::new()
            .autoscaler("web", &json!({}))
            .decide(review.to_string().as_bytes());
        assert_eq!(
            (decision.resource, patch_in(&decision.review)),
            (AdmissionResource::Pod, None),
            "{over}"
        );
    }
}

#[test]
fn bodies_without_a_review_are_admitted() {
    for body in [
        "",
        "{",
        "null",
        "[]",
        "5",
        "{}",
        r#"{"request":null}"#,
        r#"{"request":{"uid":7}}"#,
        "\u{0}",
        "{\"a\":",
    ] {
        let decision = Fixture::new().decide(body.as_bytes());
        assert_eq!(
            (decision.resource, patch_in(&decision.review)),
            (AdmissionResource::Unknown, None),
            "{body}"
        );
    }
    let deep = "[".repeat(1 << 20);
    assert_eq!(
        patch_in(&Fixture::new().decide(deep.as_bytes()).review),
        None
    );
}

#[test]
fn unreviewed_objects_are_admitted_with_their_uid() {
    let decision = ParsedDecision::from(
        admit_unreviewed(pod_review(&pod(&json!({}))).to_string().as_bytes()).expect("a decision"),
    );
    assert_eq!(
        decision.review["response"],
        json!({"uid": "u-1", "allowed": true})
    );
    assert_eq!(decision.status, AdmissionStatus::Skipped);
}

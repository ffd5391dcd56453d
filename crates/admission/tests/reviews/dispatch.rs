//! Reviews of pods, of other objects, and of invalid bodies.

use admission::{AdmissionResource, AdmissionStatus, admit_unreviewed};
use serde_json::{Value, json};

use crate::fixture::{Fixture, ParsedDecision, merge, patch_in, pod, pod_review};

/// Expects the resource and the status of an ordinary pod's review merged with `over`.
fn check(over: &Value, resource: AdmissionResource, status: AdmissionStatus) {
    let fixture = Fixture::new().vpa("web", &json!({}));
    let mut review = pod_review(&pod(&json!({})));
    merge(&mut review, over);
    let decision = fixture.decide(review.to_string().as_bytes());
    let found = (decision.resource, decision.status);
    assert_eq!(found, (resource, status), "{over}");
    assert_eq!(decision.review["response"]["uid"], "u-1", "{over}");
    assert_eq!(decision.review["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(decision.review["kind"], "AdmissionReview");
    let is_patched = patch_in(&decision.review).is_some();
    assert_eq!(is_patched, status == AdmissionStatus::Applied, "{over}");
}

#[test]
fn new_pods_are_patched_in_dry_runs_too() {
    let (pod, applied) = (AdmissionResource::Pod, AdmissionStatus::Applied);
    check(&json!({}), pod, applied);
    check(&json!({"request": {"dryRun": true}}), pod, applied);
    let others = json!({"request": {"options": {"kind": "CreateOptions"}, "userInfo": null}});
    check(&others, pod, applied);
}

#[test]
fn other_operations_on_pods_are_skipped() {
    for operation in ["UPDATE", "DELETE", "CONNECT", ""] {
        let over = json!({"request": {"operation": operation}});
        check(&over, AdmissionResource::Pod, AdmissionStatus::Skipped);
    }
}

#[test]
fn other_objects_are_skipped() {
    for over in [
        json!({"subResource": "eviction"}),
        json!({"resource": {"version": "v2"}}),
        json!({"resource": {"resource": "nodes"}}),
        json!({"resource": {"group": "apps"}}),
        json!({"resource": null}),
    ] {
        let over = json!({"request": over});
        check(&over, AdmissionResource::Unknown, AdmissionStatus::Skipped);
    }
}

#[test]
fn unparsable_pods_are_admitted() {
    let fixture = Fixture::new().vpa("web", &json!({}));
    let no_containers = json!({"spec": {"containers": [1]}});
    for object in [
        json!(null),
        json!("pod"),
        json!([]),
        json!({"spec": 5}),
        no_containers,
    ] {
        let decision = fixture.decide(pod_review(&object).to_string().as_bytes());
        let found = (decision.resource, patch_in(&decision.review));
        assert_eq!(found, (AdmissionResource::Pod, None), "{object}");
    }
}

#[test]
fn bodies_without_a_review_are_admitted() {
    let (empty, unnamed) = (r#"{"request":null}"#, r#"{"request":{"uid":7}}"#);
    let (cut, deep) = (r#"{"a":"#, "[".repeat(1 << 20));
    for body in [
        "", "{", "null", "[]", "5", "{}", empty, unnamed, "\u{0}", cut, &deep,
    ] {
        let decision = Fixture::new().decide(body.as_bytes());
        let found = (decision.resource, patch_in(&decision.review));
        assert_eq!(found, (AdmissionResource::Unknown, None), "{body:.99}");
    }
}

#[test]
fn unreviewed_objects_are_admitted_with_their_uid() {
    let review = pod_review(&pod(&json!({}))).to_string();
    let decision = admit_unreviewed(review.as_bytes()).expect("a decision");
    let decision = ParsedDecision::from(decision);
    let admitted = json!({"uid": "u-1", "allowed": true});
    assert_eq!(decision.review["response"], admitted);
    assert_eq!(decision.status, AdmissionStatus::Skipped);
}

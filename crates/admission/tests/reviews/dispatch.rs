//! What is answered to reviews of all sorts of things.

use admission::decide::{Outcome, Subject, shed};
use serde_json::{Value, json};

use crate::stage::{Answer, Stage, lay, patch_in, pod, pod_review};

/// What the review is beside one of an ordinary pod, what it is about, and whether the object is
/// changed.
fn check(over: &Value, subject: Subject, outcome: Outcome) {
    let stage = Stage::new().autoscaler("web", &json!({}));
    let mut review = pod_review(&pod(&json!({})));
    lay(&mut review, over);
    let answer = stage.answer(review.to_string().as_bytes());
    assert_eq!(
        (answer.subject, answer.outcome),
        (subject, outcome),
        "{over}"
    );
    assert_eq!(answer.review["response"]["uid"], "u-1", "{over}");
    assert_eq!(answer.review["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer.review["kind"], "AdmissionReview");
    assert_eq!(
        patch_in(&answer.review).is_some(),
        outcome == Outcome::Applied,
        "{over}"
    );
}

#[test]
fn a_pod_that_is_created_is_changed_also_when_nothing_is_kept() {
    check(&json!({}), Subject::Pod, Outcome::Applied);
    check(
        &json!({"request": {"dryRun": true}}),
        Subject::Pod,
        Outcome::Applied,
    );
    check(
        &json!({"request": {"options": {"kind": "CreateOptions"}, "userInfo": null}}),
        Subject::Pod,
        Outcome::Applied,
    );
}

#[test]
fn whatever_else_happens_to_a_pod_is_none_of_our_business() {
    for operation in ["UPDATE", "DELETE", "CONNECT", ""] {
        check(
            &json!({"request": {"operation": operation}}),
            Subject::Pod,
            Outcome::Skipped,
        );
    }
    check(
        &json!({"request": {"subResource": "eviction"}}),
        Subject::Unknown,
        Outcome::Skipped,
    );
    check(
        &json!({"request": {"resource": {"version": "v2"}}}),
        Subject::Unknown,
        Outcome::Skipped,
    );
}

#[test]
fn other_objects_are_admitted() {
    check(
        &json!({"request": {"resource": {"resource": "nodes"}}}),
        Subject::Unknown,
        Outcome::Skipped,
    );
    check(
        &json!({"request": {"resource": {"group": "apps"}}}),
        Subject::Unknown,
        Outcome::Skipped,
    );
    check(
        &json!({"request": {"resource": null}}),
        Subject::Unknown,
        Outcome::Skipped,
    );
}

#[test]
fn a_pod_that_cannot_be_read_is_admitted() {
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
        lay(&mut review, &over);
        let answer = Stage::new()
            .autoscaler("web", &json!({}))
            .answer(review.to_string().as_bytes());
        assert_eq!(
            (answer.subject, patch_in(&answer.review)),
            (Subject::Pod, None),
            "{over}"
        );
    }
}

#[test]
fn a_body_that_is_no_review_is_admitted() {
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
        let answer = Stage::new().answer(body.as_bytes());
        assert_eq!(
            (answer.subject, patch_in(&answer.review)),
            (Subject::Unknown, None),
            "{body}"
        );
    }
    let deep = "[".repeat(1 << 20);
    assert_eq!(patch_in(&Stage::new().answer(deep.as_bytes()).review), None);
}

#[test]
fn what_is_not_looked_at_is_admitted_under_its_identifier() {
    let answer =
        Answer::from(shed(pod_review(&pod(&json!({}))).to_string().as_bytes()).expect("an answer"));
    assert_eq!(
        answer.review["response"],
        json!({"uid": "u-1", "allowed": true})
    );
    assert_eq!(answer.outcome, Outcome::Skipped);
}

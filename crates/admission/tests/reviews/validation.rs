//! What is said about `VerticalPodAutoscaler` objects, word for word as upstream's webhook says it.

use admission::decide::{Outcome, Subject};
use admission::{AdmissionConfig, Gates};
use serde_json::{Value, json};

use crate::stage::{Stage, lay, patch_in};

/// Everything that has a gate is accepted.
const ALL: Gates = Gates {
    cpu_startup_boost: true,
    in_place: true,
    per_vpa_config: true,
};

fn response(spec: &Value, old: Option<&Value>, gates: Gates) -> Value {
    let mut stage = Stage::new();
    stage.config = AdmissionConfig {
        gates,
        ..AdmissionConfig::default()
    };
    let object = |spec: &Value| {
        let mut object = json!({"metadata": {"name": "web"}, "spec": {"targetRef": {"kind": "Deployment", "name": "web"}}});
        lay(&mut object["spec"], spec);
        object
    };
    let review = json!({"request": {
        "uid": "u-1",
        "kind": {"group": "autoscaling.k8s.io", "version": "v1", "kind": "VerticalPodAutoscaler"},
        "requestKind": {"group": "autoscaling.k8s.io", "version": "v1", "kind": "VerticalPodAutoscaler"},
        "resource": {"group": "autoscaling.k8s.io", "version": "v1", "resource": "verticalpodautoscalers"},
        "name": "web",
        "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
        "object": object(spec),
        "oldObject": old.map(object),
    }});
    let answer = stage.answer(review.to_string().as_bytes());
    assert_eq!(answer.subject, Subject::Autoscaler);
    assert_eq!(
        answer.outcome == Outcome::Error,
        answer.review["response"]["allowed"] == false
    );
    answer.review["response"].clone()
}

/// The object is refused for these reasons.
fn refused(spec: &Value, old: Option<&Value>, gates: Gates, reasons: &str) {
    let response = response(spec, old, gates);
    assert_eq!(response["allowed"], false, "{spec}");
    let status = &response["status"];
    let message = format!("VerticalPodAutoscaler.autoscaling.k8s.io \"web\" is invalid: {reasons}");
    assert_eq!(status["message"], message, "{spec}");
    assert_eq!(
        (&status["reason"], &status["code"]),
        (&json!("Invalid"), &json!(422))
    );
    assert_eq!(
        (response.get("patch"), response.get("patchType")),
        (None, None),
        "{spec}"
    );
}

/// The object is admitted, with these warnings.
fn admitted(spec: &Value, old: Option<&Value>, gates: Gates, warnings: &Value) {
    let response = response(spec, old, gates);
    assert_eq!(response["allowed"], true, "{spec}: {response}");
    assert_eq!(
        response.get("warnings").unwrap_or(&json!([])),
        warnings,
        "{spec}"
    );
}

fn policy(policy: &Value) -> Value {
    let mut all = json!({"containerName": "app"});
    lay(&mut all, policy);
    json!({"resourcePolicy": {"containerPolicies": [all]}})
}

fn cases(text: &str) -> Vec<(Value, String)> {
    serde_json::from_str(text).expect("pairs of a specification and what is wrong with it")
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (spec, reasons) in cases(include_str!("golden/refused.json")) {
        refused(&spec, None, ALL, &reasons);
    }
}

#[test]
fn what_has_a_gate_is_forbidden_without_it() {
    for (spec, reasons) in cases(include_str!("golden/forbidden.json")) {
        refused(&spec, None, Gates::default(), &reasons);
        admitted(&spec, None, ALL, &json!([]));
    }
}

#[test]
fn an_object_keeps_what_it_had_before_the_gate_was_closed() {
    let none = Gates::default();
    let ratio = policy(&json!({"oomBumpUpRatio": "2"}));
    let wait = json!({"updatePolicy": {"updateMode": "Off", "evictAfterOOMSeconds": 5}});
    admitted(&wait, Some(&ratio), none, &json!([]));
    admitted(&ratio, Some(&wait), none, &json!([]));
    let boost = json!({"startupBoost": {"cpu": {"type": "Factor", "factor": 2}}});
    admitted(
        &boost,
        Some(&policy(&json!({"startupBoost": {}}))),
        none,
        &json!([]),
    );
    admitted(&boost, Some(&boost), none, &json!([]));
    let forbidden = "spec.startupBoost: Forbidden: in order to use startupBoost, you must enable feature gate CPUStartupBoost \
                     in the admission-controller args";
    refused(&boost, Some(&json!({"startupBoost": {}})), none, forbidden);
    let in_place = json!({"updatePolicy": {"updateMode": "InPlace"}});
    admitted(&in_place, Some(&in_place), none, &json!([]));
}

#[test]
fn what_is_out_of_date_is_warned_of() {
    let auto = json!({"updatePolicy": {"updateMode": "Auto"}});
    let warning = "spec.updatePolicy: \"Auto\" mode is deprecated and will be removed in a future API version. Use explicit \
                   update modes like: [InPlace InPlaceOrRecreate Initial Off Recreate]. \
                   See https://github.com/kubernetes/autoscaler/issues/8424 for more details.";
    admitted(&auto, None, Gates::default(), &json!([warning]));
    let disk = policy(&json!({"controlledResources": ["cpu", "disk"]}));
    let path = "spec.resourcePolicy.containerPolicies[0].controlledResources[1]";
    let warning = format!(
        "{path}: unsupported value \"disk\" is allowed only because it is present in the existing VPA object; \
         supported values: \"cpu\", \"memory\""
    );
    admitted(&disk, Some(&disk), Gates::default(), &json!([warning]));
}

#[test]
fn the_update_policy_is_filled_in_where_there_is_none() {
    let patch = |spec: &Value| {
        let response = response(spec, None, Gates::default());
        patch_in(&json!({"response": response}))
    };
    let filled =
        json!([{"op": "add", "path": "/spec/updatePolicy", "value": {"updateMode": "Recreate"}}]);
    assert_eq!(patch(&json!({})), Some(filled.clone()));
    assert_eq!(patch(&json!({"updatePolicy": null})), Some(filled));
    assert_eq!(patch(&json!({"updatePolicy": {"updateMode": "Off"}})), None);
}

#[test]
fn every_reason_is_told_by_its_field() {
    let spec = json!({"updatePolicy": {"updateMode": "Off", "minReplicas": 0}});
    let response = response(&spec, None, Gates::default());
    let details = json!({
        "name": "web",
        "group": "autoscaling.k8s.io",
        "kind": "VerticalPodAutoscaler",
        "causes": [{
            "reason": "FieldValueInvalid",
            "message": "Invalid value: 0: minReplicas has to be positive",
            "field": "spec.updatePolicy.minReplicas",
        }],
    });
    assert_eq!(response["status"]["details"], details);
}

#[test]
fn an_object_that_is_deleted_is_not_looked_at() {
    let review = json!({"request": {
        "uid": "u-1",
        "resource": {"group": "autoscaling.k8s.io", "version": "v1", "resource": "verticalpodautoscalers"},
        "operation": "DELETE",
        "object": null,
        "oldObject": {"spec": {"targetRef": null}},
    }});
    let answer = Stage::new().answer(review.to_string().as_bytes());
    assert_eq!(
        answer.review["response"],
        json!({"uid": "u-1", "allowed": true})
    );
}

#[test]
fn an_object_that_is_going_can_let_go_of_its_finalizers_whatever_is_wrong_with_it() {
    let answer = |object: &Value, old: &Value| {
        let review = json!({"request": {
            "uid": "u-1",
            "resource": {"group": "autoscaling.k8s.io", "version": "v1", "resource": "verticalpodautoscalers"},
            "operation": "UPDATE",
            "object": object,
            "oldObject": old,
        }});
        Stage::new().answer(review.to_string().as_bytes()).review["response"].clone()
    };
    let admitted = json!({"uid": "u-1", "allowed": true});
    let (living, going) = (
        json!({}),
        json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}),
    );
    for spec in [
        json!({"updatePolicy": {"updateMode": "Never"}}),
        json!({"updatePolicy": 5}),
        json!(null),
    ] {
        let object = |metadata: &Value| json!({"metadata": metadata, "spec": spec});
        assert_eq!(answer(&object(&going), &object(&going)), admitted, "{spec}");
        // Whether it is going is for the API server to say, and not for who writes it.
        if !spec.is_null() {
            assert_eq!(
                answer(&object(&going), &object(&living))["allowed"],
                false,
                "{spec}"
            );
        }
    }
}

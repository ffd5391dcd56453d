//! Errors and warnings of `VerticalPodAutoscaler` objects, with upstream's texts.

use admission::{AdmissionConfig, Gates};
use admission::{AdmissionResource, AdmissionStatus};
use serde_json::{Value, json};

use crate::fixture::{Fixture, merge, patch_in};

/// All gates on.
const ALL: Gates = Gates {
    cpu_startup_boost: true,
    in_place: true,
    per_vpa_config: true,
};

fn response(spec: &Value, old: Option<&Value>, gates: Gates) -> Value {
    let mut fixture = Fixture::new();
    fixture.config = AdmissionConfig {
        gates,
        ..AdmissionConfig::default()
    };
    let object = |spec: &Value| {
        let mut object = json!({"metadata": {"name": "web"}, "spec": {"targetRef": {"kind": "Deployment", "name": "web"}}});
        merge(&mut object["spec"], spec);
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
    let decision = fixture.decide(review.to_string().as_bytes());
    assert_eq!(decision.resource, AdmissionResource::Vpa);
    assert_eq!(
        decision.status == AdmissionStatus::Error,
        decision.review["response"]["allowed"] == false
    );
    decision.review["response"].clone()
}

/// Expects a refusal with these errors.
fn check_refused(spec: &Value, old: Option<&Value>, gates: Gates, reasons: &str) {
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

/// Expects an admission with these warnings.
fn check_admitted(spec: &Value, old: Option<&Value>, gates: Gates, warnings: &Value) {
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
    merge(&mut all, policy);
    json!({"resourcePolicy": {"containerPolicies": [all]}})
}

fn cases(text: &str) -> Vec<(Value, String)> {
    serde_json::from_str(text).expect("pairs of a specification and what is wrong with it")
}

#[test]
fn invalid_values_are_refused() {
    for (spec, reasons) in cases(include_str!("golden/refused.json")) {
        check_refused(&spec, None, ALL, &reasons);
    }
}

#[test]
fn gated_fields_are_forbidden_without_their_gate() {
    for (spec, reasons) in cases(include_str!("golden/forbidden.json")) {
        check_refused(&spec, None, Gates::default(), &reasons);
        check_admitted(&spec, None, ALL, &json!([]));
    }
}

#[test]
fn gated_fields_of_existing_objects_stay_valid() {
    let none = Gates::default();
    let ratio = policy(&json!({"oomBumpUpRatio": "2"}));
    let wait = json!({"updatePolicy": {"updateMode": "Off", "evictAfterOOMSeconds": 5}});
    check_admitted(&wait, Some(&ratio), none, &json!([]));
    check_admitted(&ratio, Some(&wait), none, &json!([]));
    let boost = json!({"startupBoost": {"cpu": {"type": "Factor", "factor": 2}}});
    check_admitted(
        &boost,
        Some(&policy(&json!({"startupBoost": {}}))),
        none,
        &json!([]),
    );
    check_admitted(&boost, Some(&boost), none, &json!([]));
    let forbidden = "spec.startupBoost: Forbidden: in order to use startupBoost, you must enable feature gate CPUStartupBoost \
                     in the admission-controller args";
    check_refused(&boost, Some(&json!({"startupBoost": {}})), none, forbidden);
    let in_place = json!({"updatePolicy": {"updateMode": "InPlace"}});
    check_admitted(&in_place, Some(&in_place), none, &json!([]));
}

#[test]
fn deprecated_values_cause_warnings() {
    let auto = json!({"updatePolicy": {"updateMode": "Auto"}});
    let warning = "spec.updatePolicy: \"Auto\" mode is deprecated and will be removed in a future API version. Use explicit \
                   update modes like: [InPlace InPlaceOrRecreate Initial Off Recreate]. \
                   See https://github.com/kubernetes/autoscaler/issues/8424 for more details.";
    check_admitted(&auto, None, Gates::default(), &json!([warning]));
    let disk = policy(&json!({"controlledResources": ["cpu", "disk"]}));
    let path = "spec.resourcePolicy.containerPolicies[0].controlledResources[1]";
    let warning = format!(
        "{path}: unsupported value \"disk\" is allowed only because it is present in the existing VPA object; \
         supported values: \"cpu\", \"memory\""
    );
    check_admitted(&disk, Some(&disk), Gates::default(), &json!([warning]));
}

#[test]
fn a_missing_update_policy_is_defaulted() {
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
fn each_error_is_a_cause_with_its_field() {
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
fn deletions_are_admitted() {
    let review = json!({"request": {
        "uid": "u-1",
        "resource": {"group": "autoscaling.k8s.io", "version": "v1", "resource": "verticalpodautoscalers"},
        "operation": "DELETE",
        "object": null,
        "oldObject": {"spec": {"targetRef": null}},
    }});
    let decision = Fixture::new().decide(review.to_string().as_bytes());
    assert_eq!(
        decision.review["response"],
        json!({"uid": "u-1", "allowed": true})
    );
}

#[test]
fn finalizers_of_invalid_objects_can_be_removed() {
    let response = |object: &Value, old: &Value| {
        let review = json!({"request": {
            "uid": "u-1",
            "resource": {"group": "autoscaling.k8s.io", "version": "v1", "resource": "verticalpodautoscalers"},
            "operation": "UPDATE",
            "object": object,
            "oldObject": old,
        }});
        Fixture::new().decide(review.to_string().as_bytes()).review["response"].clone()
    };
    let admitted = json!({"uid": "u-1", "allowed": true});
    let (kept, deleted) = (
        json!({}),
        json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}),
    );
    for spec in [
        json!({"updatePolicy": {"updateMode": "Never"}}),
        json!({"updatePolicy": 5}),
        json!(null),
    ] {
        let object = |metadata: &Value| json!({"metadata": metadata, "spec": spec});
        assert_eq!(
            response(&object(&deleted), &object(&deleted)),
            admitted,
            "{spec}"
        );
        // The old object tells whether it is being deleted; the new one is the author's.
        if !spec.is_null() {
            assert_eq!(
                response(&object(&deleted), &object(&kept))["allowed"],
                false,
                "{spec}"
            );
        }
    }
}

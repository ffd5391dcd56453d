//! Errors and warnings of `VerticalPodAutoscaler` objects, with upstream's texts.

use admission::{AdmissionConfig, AdmissionResource, AdmissionStatus, Gates};
use serde_json::{Value, json};

use crate::fixture::{Fixture, merge, patch_in};

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
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    decide(&fixture, operation, &object(spec), &json!(old.map(object)))
}

/// The response to a review of these versions of an object.
fn decide(fixture: &Fixture, operation: &str, object: &Value, old: &Value) -> Value {
    let kind =
        json!({"group": "autoscaling.k8s.io", "version": "v1", "kind": "VerticalPodAutoscaler"});
    let review = json!({"request": {
        "uid": "u-1",
        "kind": kind,
        "requestKind": kind,
        "resource": {"group": "autoscaling.k8s.io", "version": "v1", "resource": "verticalpodautoscalers"},
        "name": "web",
        "operation": operation,
        "object": object,
        "oldObject": old,
    }});
    let mut decision = fixture.decide(review.to_string().as_bytes());
    let response = decision.review["response"].take();
    assert_eq!(decision.resource, AdmissionResource::Vpa);
    let is_error = decision.status == AdmissionStatus::Error;
    assert_eq!(is_error, response["allowed"] == false);
    response
}

/// Expects a refusal with these errors.
fn check_refused(spec: &Value, old: Option<&Value>, gates: Gates, reasons: &str) {
    let response = response(spec, old, gates);
    assert_eq!(response["allowed"], false, "{spec}");
    let status = &response["status"];
    let message = format!("VerticalPodAutoscaler.autoscaling.k8s.io \"web\" is invalid: {reasons}");
    assert_eq!(status["message"], message, "{spec}");
    assert_eq!(status["reason"], "Invalid");
    assert_eq!(status["code"], 422);
    let patch = (response.get("patch"), response.get("patchType"));
    assert_eq!(patch, (None, None), "{spec}");
}

/// Expects an admission with these warnings.
fn check_admitted(spec: &Value, old: Option<&Value>, gates: Gates, warnings: &Value) {
    let response = response(spec, old, gates);
    assert_eq!(response["allowed"], true, "{spec}: {response}");
    let none = json!([]);
    let found = response.get("warnings").unwrap_or(&none);
    assert_eq!(found, warnings, "{spec}");
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
fn a_policy_of_the_pod_is_validated() {
    let with = |pod_policy: Value| json!({"resourcePolicy": {"podPolicy": pod_policy}});
    let whole = with(json!({"mode": "Auto", "minAllowed": {"cpu": "1"}}));
    check_admitted(&whole, None, ALL, &json!([]));
    let unknown = with(json!({"mode": "On"}));
    let supported = "spec.resourcePolicy.podPolicy.mode: Unsupported value: \"On\": supported values: \"Auto\", \"Off\"";
    check_refused(&unknown, None, ALL, supported);
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
    let of_container = policy(&json!({"startupBoost": {}}));
    check_admitted(&boost, Some(&of_container), none, &json!([]));
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
fn slips_of_units_cause_warnings() {
    let path = "spec.resourcePolicy.containerPolicies[0]";
    let cores =
        |field: &str| format!("{field}: \"250\" is 250 cores; millicores have the suffix m");
    let boost = json!({"cpu": {"type": "Quantity", "quantity": "250"}});
    for (spec, warning) in [
        (
            policy(&json!({"minAllowed": {"cpu": "250"}})),
            cores(&format!("{path}.minAllowed[cpu]")),
        ),
        (
            policy(&json!({"maxAllowed": {"memory": "512"}})),
            format!(
                "{path}.maxAllowed[memory]: \"512\" is 512 bytes; mebibytes have the suffix Mi"
            ),
        ),
        (
            policy(&json!({"oomMinBumpUp": "100"})),
            format!("{path}.oomMinBumpUp: \"100\" is 100 bytes; mebibytes have the suffix Mi"),
        ),
        (
            policy(&json!({"startupBoost": boost})),
            cores(&format!("{path}.startupBoost.cpu.quantity")),
        ),
        (
            json!({"startupBoost": boost}),
            cores("spec.startupBoost.cpu.quantity"),
        ),
    ] {
        check_admitted(&spec, None, ALL, &json!([warning]));
    }
    let usual = json!({"minAllowed": {"cpu": "250m", "memory": "512Mi"}});
    check_admitted(&policy(&usual), None, ALL, &json!([]));
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
    let invalid = json!({"spec": {"targetRef": null}});
    let response = decide(&Fixture::new(), "DELETE", &Value::Null, &invalid);
    assert_eq!(response, json!({"uid": "u-1", "allowed": true}));
}

#[test]
fn finalizers_of_invalid_objects_can_be_removed() {
    let response = |object: &Value, old: &Value| decide(&Fixture::new(), "UPDATE", object, old);
    let admitted = json!({"uid": "u-1", "allowed": true});
    let kept = json!({});
    let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]});
    for spec in [
        json!({"updatePolicy": {"updateMode": "Never"}}),
        json!({"updatePolicy": 5}),
        json!(null),
    ] {
        let object = |metadata: &Value| json!({"metadata": metadata, "spec": spec});
        let found = response(&object(&deleted), &object(&deleted));
        assert_eq!(found, admitted, "{spec}");
        // The old object tells whether it is being deleted; the new one is the author's.
        if !spec.is_null() {
            let found = response(&object(&deleted), &object(&kept));
            assert_eq!(found["allowed"], false, "{spec}");
        }
    }
}

#[test]
fn an_invalid_group_of_nodes_is_refused() {
    let field = "metadata.annotations[plimsoll.dev/node-group]";
    let daemon_set = "the target must be a DaemonSet, not";
    let format = "must be LABEL=VALUE, a label of nodes";
    let long = "x".repeat(100_000);
    let short = "x".repeat(40);
    for (kind, group, expected) in [
        ("DaemonSet", json!("pool=big"), None),
        ("DaemonSet", json!(null), None),
        ("Deployment", json!(null), None),
        (
            "DaemonSet",
            json!("pool"),
            Some(format!("\"pool\": {format}")),
        ),
        ("DaemonSet", json!(""), Some(format!("\"\": {format}"))),
        (
            "DaemonSet",
            json!(long),
            Some(format!("\"{short}\": {format}")),
        ),
        (
            "Deployment",
            json!("pool=big"),
            Some(format!("\"pool=big\": {daemon_set} \"Deployment\"")),
        ),
    ] {
        let annotations = json!({"other": "kept", "plimsoll.dev/node-group": group});
        let object = json!({
            "metadata": {"name": "web", "annotations": annotations},
            "spec": {"targetRef": {"kind": kind, "name": "web"}},
        });
        for operation in ["CREATE", "UPDATE"] {
            let response = decide(&Fixture::new(), operation, &object, &object);
            let message = expected.as_ref().map(|expected| {
                let what = "VerticalPodAutoscaler.autoscaling.k8s.io \"web\" is invalid";
                format!("{what}: {field}: Invalid value: {expected}")
            });
            assert_eq!(
                response["status"]["message"],
                json!(message),
                "{kind} {group}"
            );
            assert_eq!(response["allowed"], message.is_none(), "{kind} {group}");
        }
    }
}

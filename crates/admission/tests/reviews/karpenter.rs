//! Karpenter predicts the requests of the pods that it moves from their VPA object, and moves them to nodes
//! with room for these. Its rule, of `designs/in-place-pod-vertical-scaling.md`, against what the webhook makes.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::fixture::{Fixture, merge, pod};

/// The requests of the container `app` by Karpenter's rule: the target of each controlled resource, unless the
/// mode is `Off`, and the pod's own requests else.
fn predicted(vpa: &Value, own: &Value) -> Map<String, Value> {
    let mut requests = own.as_object().cloned().unwrap_or_default();
    if vpa["spec"]["updatePolicy"]["updateMode"] == "Off" {
        return requests;
    }
    let recommended = vpa["status"]["recommendation"]["containerRecommendations"].as_array();
    let mut recommended = recommended.into_iter().flatten();
    let recommended = recommended.find(|it| it["containerName"] == "app");
    let policies = vpa["spec"]["resourcePolicy"]["containerPolicies"].as_array();
    let policy = |name: &str| {
        let mut policies = policies.into_iter().flatten();
        policies.find(|it| it["containerName"] == name)
    };
    let policy = policy("app").or_else(|| policy("*"));
    let controlled = policy.and_then(|it| it["controlledResources"].as_array().cloned());
    let target = recommended.and_then(|it| it["target"].as_object());
    for (resource, amount) in target.into_iter().flatten() {
        if controlled
            .as_ref()
            .is_none_or(|all| all.contains(&resource.clone().into()))
        {
            requests.insert(resource.clone(), amount.clone());
        }
    }
    requests
}

/// The requests of `app` by Karpenter's rule, and after the webhook's patch.
fn both(vpa: &Value, limit_range: &Value) -> [Value; 2] {
    let own = json!({"cpu": "250m", "memory": "1Gi"});
    let mut object = json!({"status": {"recommendation": {"containerRecommendations": [
        {"containerName": "app", "target": {"cpu": "100m", "memory": "200Mi"}},
    ]}}});
    merge(&mut object, vpa);
    let mut fixture = Fixture::new().vpa("web", vpa);
    fixture.config.gates.cpu_startup_boost = true;
    if !limit_range.is_null() {
        fixture = fixture.limit_range(limit_range);
    }
    let mut pod = pod(&json!({"requests": own}));
    if let Some(patch) = fixture.patch(&pod) {
        let patch: json_patch::Patch = serde_json::from_value(patch).expect("a JSON patch");
        json_patch::patch(&mut pod, &patch).expect("it applies");
    }
    let made = pod["spec"]["containers"][0]["resources"]["requests"].clone();
    [predicted(&object, &own).into(), made]
}

fn recommended(of: &Value) -> Value {
    json!({"status": {"recommendation": {"containerRecommendations": of}}})
}

fn controlling(resource: &str) -> Value {
    let policy = json!({"containerName": "*", "controlledResources": [resource]});
    let target = json!({"cpu": "100m", "memory": "200Mi"});
    let target = json!({resource: target[resource]});
    let mut vpa = recommended(&json!([{"containerName": "app", "target": target}]));
    merge(
        &mut vpa,
        &json!({"spec": {"resourcePolicy": {"containerPolicies": [policy]}}}),
    );
    vpa
}

#[test]
fn karpenter_predicts_the_requests_of_new_pods() {
    let in_mode = |mode: &str| json!({"spec": {"updatePolicy": {"updateMode": mode}}});
    for vpa in [
        json!({}),
        in_mode("Off"),
        in_mode("Initial"),
        in_mode("Recreate"),
        in_mode("InPlace"),
        in_mode("InPlaceOrRecreate"),
        recommended(&json!([])),
        recommended(&json!([{"containerName": "other", "target": {"cpu": "1"}}])),
        recommended(&json!([{"containerName": "app", "target": {"cpu": "1"}}])),
        // The recommender leaves out what a policy does not control.
        controlling("memory"),
        controlling("cpu"),
    ] {
        let [predicted, created] = both(&vpa, &Value::Null);
        assert_eq!(predicted, created, "{vpa}");
    }
}

/// docs/operations.md lists these, and whole pods.
#[test]
fn the_cases_that_karpenter_does_not_predict_are_these() {
    let of = |cpu: &str| {
        json!({"containerRecommendations": [
            {"containerName": "app", "target": {"cpu": cpu, "memory": "200Mi"}},
        ]})
    };
    let rollback = json!({
        "at": Timestamp::UNIX_EPOCH, "problem": "1 of 1 pods fail", "refused": of("100m"), "former": of("250m"),
    });
    let boost = json!({"cpu": {"type": "Factor", "factor": 3, "durationSeconds": 60}});
    let range = json!([{"type": "Container", "min": {"cpu": "150m"}}]);
    for (vpa, range, expected) in [
        (
            json!({"metadata": {"annotations": {"plimsoll.dev/rolled-back": rollback.to_string()}}}),
            Value::Null,
            "250m",
        ),
        (
            json!({"spec": {"startupBoost": boost}}),
            Value::Null,
            "300m",
        ),
        (json!({}), range, "150m"),
    ] {
        let [predicted, created] = both(&vpa, &range);
        assert_eq!(predicted["cpu"], "100m");
        assert_eq!(created["cpu"], expected, "{vpa}");
    }
}

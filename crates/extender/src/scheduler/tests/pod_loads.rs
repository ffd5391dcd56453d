//! Load of a pod by the recommendation and the forecast of its workload.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::apps::v1::ReplicaSet;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use view::{Controller, Prediction, Vpa, WellKnown};

use super::super::node_table::pod_spec;
use super::super::*;
use super::fixture::{Fixture, START, config};

fn read<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("an object")
}

/// A Deployment with two replicas, and its `ReplicaSet`.
fn controllers(view: &mut View) {
    let selector = json!({"matchLabels": {"app": "web"}});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}});
    let deployment: Deployment = read(json!({
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"replicas": 2, "selector": selector, "template": template},
    }));
    let set: ReplicaSet = read(json!({
        "metadata": {"namespace": "shop", "name": "web-1", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1", "controller": true},
        ]},
        "spec": {"replicas": 2, "selector": selector, "template": template},
    }));
    let deployments = view.controllers_mut(WellKnown::Deployment);
    deployments.apply(Arc::new(Controller::from(deployment)));
    let sets = view.controllers_mut(WellKnown::ReplicaSet);
    sets.apply(Arc::new(Controller::from(set)));
}

fn vpa(view: &mut View, name: &str, created: &str, cpu: &str) {
    let object = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": name, "creationTimestamp": created},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "updatePolicy": {"updateMode": "Off"}},
        "status": {"recommendation": {"containerRecommendations": [
            {"containerName": "app", "target": {"cpu": cpu, "memory": "64Mi"}},
        ]}},
    });
    view.vpas.apply(Arc::new(Vpa::from_k8s(read(object))));
}

fn prediction(view: &mut View, namespace: &str, cores: &str) {
    let metric = json!({"resourceIdentifier": "resource.cpu", "type": "ResourceQuery", "resourceQuery": "cpu", "algorithm": {"algorithmType": "dsp"}});
    let sample = |second: i64, value: &str| json!({"timestamp": second, "value": value});
    let samples = json!([
        sample(START - 60, "99"),
        sample(START + 60, cores),
        sample(START + 7200, "99")
    ]);
    let object = json!({
        "apiVersion": "prediction.crane.io/v1alpha1", "kind": "TimeSeriesPrediction",
        "metadata": {"namespace": namespace, "name": "ehpa-web"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "predictionWindowSeconds": 86_400, "predictionMetrics": [metric],
        },
        "status": {"predictionMetrics": [{"resourceIdentifier": "resource.cpu", "ready": true, "prediction": [{"samples": samples}]}]},
    });
    let object = Prediction::from_k8s(read(object));
    view.predicted_metrics.apply(Arc::new(object));
}

/// CPU of a pod of the Deployment with a limit of two CPUs.
fn millicores(fixture: &Fixture, label: &str) -> i64 {
    let pod = BoundPod::from_k8s(read(json!({
        "metadata": {
            "namespace": "shop", "name": "web-1-a", "uid": "u", "labels": {"app": label},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "2", "controller": true}],
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "app", "resources": {"limits": {"cpu": "2"}}}]},
    })));
    let now = Timestamp::from_second(START).expect("a time");
    assert!(!pod_spec(&pod).containers.is_empty());
    fixture.scheduler.bound_load(&pod, now).cpu_millicores
}

#[test]
fn a_recommendation_comes_before_a_forecast_and_a_limit() {
    let fixture = Fixture::new(config(), &[25.0]);
    assert_eq!(millicores(&fixture, "web"), 2000, "without controllers");
    fixture.workloads(controllers);
    assert_eq!(millicores(&fixture, "web"), 2000);
    fixture.workloads(|view| prediction(view, "other", "40"));
    assert_eq!(millicores(&fixture, "web"), 2000, "of another namespace");
    fixture.workloads(|view| prediction(view, "shop", "1.5"));
    assert_eq!(millicores(&fixture, "web"), 750, "of two replicas");
    fixture.workloads(|view| vpa(view, "young", "2026-02-01T00:00:00Z", "900m"));
    fixture.workloads(|view| vpa(view, "old", "2026-01-01T00:00:00Z", "300m"));
    assert_eq!(millicores(&fixture, "web"), 300, "of the oldest VPA");
    assert_eq!(millicores(&fixture, "api"), 750, "not selected by the VPA");
}

//! A cluster with 10,000 workloads, each with a VPA object that has a recommendation.

use anyhow::Result;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use serde_json::{Value, json};
use std::sync::Arc;
use view::{Controller, ObjectKey, View, Vpa, WellKnown};

const NAMESPACES: usize = 20;
const WORKLOADS: usize = 500;

fn workload(number: usize) -> (String, String) {
    let number = number % (NAMESPACES * WORKLOADS);
    (
        format!("team-{}", number / WORKLOADS),
        format!("web-{}", number % WORKLOADS),
    )
}

pub(crate) fn view() -> Result<View> {
    let mut view = View::default();
    for number in 0..NAMESPACES * WORKLOADS {
        let (namespace, name) = workload(number);
        let set = format!("{name}-5d8f");
        let selector = json!({"matchLabels": {"app": name}});
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"selector": selector, "template": {}},
        }))?;
        let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": "d", "controller": true}]);
        let set: ReplicaSet = serde_json::from_value(json!({
            "metadata": {"namespace": namespace, "name": set, "ownerReferences": owner},
            "spec": {"selector": selector},
        }))?;
        view.controllers_mut(WellKnown::Deployment)
            .apply(Arc::new(Controller::from(deployment)));
        view.controllers_mut(WellKnown::ReplicaSet)
            .apply(Arc::new(Controller::from(set)));
        let target = |container: &str| json!({"containerName": container, "target": {"cpu": format!("{}m", 100 + number % 900), "memory": "380258472"}});
        let object = api::vpa::parse(json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"namespace": namespace, "name": name, "uid": format!("u{number}")},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "resourcePolicy": {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "4", "memory": "8Gi"}}]},
            },
            "status": {"recommendation": {"containerRecommendations": [target("app"), target("proxy")]}},
        }))?;
        view.vpas.apply(Arc::new(Vpa {
            key: ObjectKey::new(namespace, name),
            object,
        }));
    }
    Ok(view)
}

pub(crate) fn review(number: usize) -> Value {
    let (namespace, name) = workload(number);
    let container = |container: &str| {
        let variables: Vec<_> = (0..8)
            .map(|n| json!({"name": format!("SETTING_{n}"), "value": "some value of usual length"}))
            .collect();
        json!({
            "name": container, "image": "registry.example.com/team/app:1.2.3", "env": variables,
            "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {"cpu": "200m", "memory": "200Mi"}},
            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}],
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
        })
    };
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{name}-5d8f"), "uid": "r",
                        "controller": true, "blockOwnerDeletion": true}]);
    let fields: Vec<_> = (0..20)
        .map(|n| {
            (
                format!("f:field-{n}"),
                json!({".": {}, "f:name": {}, "f:value": {}}),
            )
        })
        .collect();
    let managed = json!([{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                          "fieldsV1": serde_json::Map::from_iter(fields)}]);
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"generateName": format!("{name}-5d8f-"), "namespace": namespace, "labels": {"app": name, "pod-template-hash": "5d8f"},
                     "annotations": {"prometheus.io/scrape": "true"}, "ownerReferences": owner, "managedFields": managed},
        "spec": {"containers": [container("app"), container("proxy")], "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
                 "serviceAccountName": "default", "schedulerName": "default-scheduler", "enableServiceLinks": true,
                 "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]},
        "status": {},
    });
    let kind = |kind: &str| json!({"group": "", "version": "v1", "kind": kind});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": format!("00000000-0000-4000-8000-{number:012}"), "kind": kind("Pod"), "resource": resource, "requestKind": kind("Pod"),
            "requestResource": resource, "namespace": namespace, "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller", "groups": ["system:authenticated"]},
            "object": pod, "oldObject": null, "dryRun": false, "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

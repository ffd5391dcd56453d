//! A cluster with the namespace `shop`: a Deployment `web` with the `ReplicaSet` `web-abc`, and
//! other controllers.

use std::sync::Arc;

use admission::{AdmissionConfig, AdmissionResource, AdmissionStatus, Decision, Input, review};
use api::vpa;
use model::{Labels, Selector};
use serde_json::{Value, json};
use view::{Controller, LimitRange, ObjectKey, Owner, View, Vpa, WellKnown};

pub(crate) const NAMESPACE: &str = "shop";

pub(crate) struct ParsedDecision {
    pub(crate) resource: AdmissionResource,
    pub(crate) status: AdmissionStatus,
    pub(crate) review: Value,
    /// The length of the body in bytes.
    pub(crate) length: usize,
}

impl From<Decision> for ParsedDecision {
    fn from(decision: Decision) -> Self {
        Self {
            resource: decision.resource,
            status: decision.status,
            review: serde_json::from_slice(&decision.body).expect("a review"),
            length: decision.body.len(),
        }
    }
}

#[derive(Default)]
pub(crate) struct Fixture {
    pub(crate) view: View,
    pub(crate) config: AdmissionConfig,
}

impl Fixture {
    /// A fixture with the controllers and without VPA objects.
    pub(crate) fn new() -> Self {
        let mut fixture = Self::default();
        fixture.controller(WellKnown::Deployment, "web", None);
        let owner = Some(("Deployment", "web"));
        fixture.controller(WellKnown::ReplicaSet, "web-abc", owner);
        fixture.controller(WellKnown::StatefulSet, "db", None);
        fixture.controller(WellKnown::CronJob, "nightly", None);
        fixture.controller(WellKnown::Job, "nightly-1", Some(("CronJob", "nightly")));
        fixture
    }

    /// Adds a controller. Its pods have the label `app` with the name of the topmost controller.
    pub(crate) fn controller(&mut self, kind: WellKnown, name: &str, owner: Option<(&str, &str)>) {
        let app = owner.map_or(name, |(_, owner)| owner);
        let owner = owner.map(|(kind, name)| Owner {
            api_version: "apps/v1".to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
        });
        self.view.controllers_mut(kind).apply(Arc::new(Controller {
            key: ObjectKey::new(NAMESPACE, name),
            labels: Labels::default(),
            selector: Ok(Selector::match_labels([("app", app)])),
            owner,
            replicas: Some(1),
            min_ready: std::time::Duration::ZERO,
            template: view::PodTemplate::default(),
        }));
    }

    /// Adds a VPA object for `web`, merged with `over`. It recommends 100 millicores and 200 MiB
    /// for `app`.
    pub(crate) fn vpa(mut self, name: &str, over: &Value) -> Self {
        let mut object = json!({
            "metadata": {"namespace": NAMESPACE, "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            "status": {"recommendation": {"containerRecommendations": [
                {"containerName": "app", "target": {"cpu": "100m", "memory": "200Mi"}},
            ]}},
        });
        merge(&mut object, over);
        let object = vpa::parse(object).expect("an autoscaler");
        self.view.vpas.apply(Arc::new(Vpa {
            key: ObjectKey::new(NAMESPACE, name),
            object,
        }));
        self
    }

    pub(crate) fn limit_range(mut self, items: &Value) -> Self {
        let object = json!({"metadata": {"namespace": NAMESPACE, "name": "limits"}, "spec": {"limits": items}});
        let object = serde_json::from_value(object).expect("a limit range");
        let limit_range = Arc::new(LimitRange::from_k8s(object));
        self.view.limit_ranges.apply(limit_range);
        self
    }

    pub(crate) fn decide(&self, body: &[u8]) -> ParsedDecision {
        let input = Input {
            view: &self.view,
            feed: None,
            config: &self.config,
        };
        review(&input, body).into()
    }

    /// The patch of this pod; `None` if it is admitted unchanged.
    pub(crate) fn patch(&self, pod: &Value) -> Option<Value> {
        patch_in(&self.decide(pod_review(pod).to_string().as_bytes()).review)
    }
}

pub(crate) fn pod_review(pod: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "namespace": NAMESPACE,
            "operation": "CREATE",
            "dryRun": false,
            "object": pod,
            "oldObject": null,
        },
    })
}

/// A pod of `web` with one container `app` with these resources, as its `ReplicaSet` creates it.
pub(crate) fn pod(resources: &Value) -> Value {
    json!({
        "metadata": {
            "generateName": "web-abc-",
            "labels": {"app": "web", "pod-template-hash": "abc"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-abc", "uid": "r", "controller": true},
            ],
        },
        "spec": {"containers": [{"name": "app", "image": "app", "resources": resources}]},
    })
}

pub(crate) fn patch_in(review: &Value) -> Option<Value> {
    let response = &review["response"];
    assert_eq!(response["allowed"], true, "{response}");
    let patch = response.get("patch")?;
    assert_eq!(response["patchType"], "JSONPatch");
    let bytes: k8s_openapi::ByteString = serde_json::from_value(patch.clone()).expect("base64");
    Some(serde_json::from_slice(&bytes.0).expect("a patch"))
}

/// Merges `over` into `object`, map by map.
pub(crate) fn merge(object: &mut Value, over: &Value) {
    match (object, over) {
        (Value::Object(object), Value::Object(over)) => {
            for (key, value) in over {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, over) => *object = over.clone(),
    }
}

//! A small cluster: namespace `shop` with a Deployment `web` whose `ReplicaSet` is `web-abc`, and
//! others.

use std::sync::Arc;

use admission::decide::{self, Outcome, Subject, review};
use admission::{AdmissionConfig, Input};
use api::vpa;
use model::{Labels, Selector};
use serde_json::{Value, json};
use view::{Autoscaler, Controller, LimitRange, ObjectKey, Owner, View, WellKnown};

pub(crate) const NAMESPACE: &str = "shop";

/// An answer whose text was read.
pub(crate) struct Answer {
    pub(crate) subject: Subject,
    pub(crate) outcome: Outcome,
    pub(crate) review: Value,
    pub(crate) length: usize,
}

impl From<decide::Answer> for Answer {
    fn from(answer: decide::Answer) -> Self {
        let decide::Answer {
            subject,
            outcome,
            body,
            failure: _,
        } = answer;
        Self {
            subject,
            outcome,
            review: serde_json::from_slice(&body).expect("a review"),
            length: body.len(),
        }
    }
}

/// What is known when a review comes.
#[derive(Default)]
pub(crate) struct Stage {
    pub(crate) view: View,
    pub(crate) config: AdmissionConfig,
}

impl Stage {
    /// With the controllers, and without autoscalers.
    pub(crate) fn new() -> Self {
        let mut stage = Self::default();
        stage.controller(WellKnown::Deployment, "web", None);
        stage.controller(
            WellKnown::ReplicaSet,
            "web-abc",
            Some(("Deployment", "web")),
        );
        stage.controller(WellKnown::StatefulSet, "db", None);
        stage.controller(WellKnown::CronJob, "nightly", None);
        stage.controller(WellKnown::Job, "nightly-1", Some(("CronJob", "nightly")));
        stage
    }

    /// A controller whose pods have the label `app` with the name of the one on top.
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
        }));
    }

    /// An autoscaler for `web`, with `over` laid over it: it recommends 100 millicores and 200 MiB
    /// for `app`.
    pub(crate) fn autoscaler(mut self, name: &str, over: &Value) -> Self {
        let mut object = json!({
            "metadata": {"namespace": NAMESPACE, "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            "status": {"recommendation": {"containerRecommendations": [
                {"containerName": "app", "target": {"cpu": "100m", "memory": "200Mi"}},
            ]}},
        });
        lay(&mut object, over);
        let object = vpa::parse(object).expect("an autoscaler");
        self.view.autoscalers.apply(Arc::new(Autoscaler {
            key: ObjectKey::new(NAMESPACE, name),
            object,
        }));
        self
    }

    /// A `LimitRange` with these items.
    pub(crate) fn limit_range(mut self, items: &Value) -> Self {
        let object = json!({"metadata": {"namespace": NAMESPACE, "name": "limits"}, "spec": {"limits": items}});
        let object = serde_json::from_value(object).expect("a limit range");
        self.view
            .limit_ranges
            .apply(Arc::new(LimitRange::trim(object)));
        self
    }

    /// The answer to this body.
    pub(crate) fn answer(&self, body: &[u8]) -> Answer {
        review(
            &Input {
                view: &self.view,
                heard: None,
                config: &self.config,
            },
            body,
        )
        .into()
    }

    /// The patch of this pod; none where it stays as it is.
    pub(crate) fn patch(&self, pod: &Value) -> Option<Value> {
        patch_in(&self.answer(pod_review(pod).to_string().as_bytes()).review)
    }
}

/// A review of a pod that is being created.
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

/// A pod of `web` with one container `app` and these resources, as its `ReplicaSet` makes it.
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

/// The patch in the answer to a review that is admitted.
pub(crate) fn patch_in(review: &Value) -> Option<Value> {
    let response = &review["response"];
    assert_eq!(response["allowed"], true, "{response}");
    let patch = response.get("patch")?;
    assert_eq!(response["patchType"], "JSONPatch");
    let bytes: k8s_openapi::ByteString = serde_json::from_value(patch.clone()).expect("base64");
    Some(serde_json::from_slice(&bytes.0).expect("a patch"))
}

/// Lays `over` over `object`, map by map.
pub(crate) fn lay(object: &mut Value, over: &Value) {
    match (object, over) {
        (Value::Object(object), Value::Object(over)) => {
            for (key, value) in over {
                lay(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, over) => *object = over.clone(),
    }
}

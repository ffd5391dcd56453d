//! A namespace for objects that are right, and some that are wrong.

use anyhow::Result;
use api::vpa::VerticalPodAutoscaler;
use e2e::{namespace, shared};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, Error};
use serde_json::{Value, json};

/// One namespace, with loosely typed access to its autoscalers.
pub(super) struct Fixture {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) autoscalers: Api<DynamicObject>,
}

impl Fixture {
    pub(super) async fn new() -> Result<Self> {
        let client = shared().await?.client().await?;
        let namespace = namespace(&client, "crds").await?;
        let resource = ApiResource::erase::<VerticalPodAutoscaler>(&());
        let autoscalers = Api::namespaced_with(client.clone(), &namespace, &resource);
        Ok(Self {
            client,
            namespace,
            autoscalers,
        })
    }

    pub(super) async fn create(&self, spec: &Value) -> kube::Result<DynamicObject> {
        let object = json!({
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscaler",
            "metadata": {"generateName": "web-"},
            "spec": spec,
        });
        let object = serde_json::from_value(object).map_err(Error::SerdeError)?;
        self.autoscalers
            .create(&PostParams::default(), &object)
            .await
    }

    pub(super) async fn patch_status(
        &self,
        name: &str,
        status: &Value,
    ) -> kube::Result<DynamicObject> {
        let patch = Patch::<Value>::Merge(json!({"status": status}));
        self.autoscalers
            .patch_status(name, &PatchParams::default(), &patch)
            .await
    }
}

/// A spec with a target and `extra`.
pub(super) fn spec(extra: Value) -> Value {
    let mut spec =
        json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
    if let (Some(spec), Value::Object(extra)) = (spec.as_object_mut(), extra) {
        spec.extend(extra);
    }
    spec
}

pub(super) fn update_policy(policy: Value) -> Value {
    spec(json!({ "updatePolicy": policy }))
}

pub(super) fn container_policy(policy: Value) -> Value {
    spec(json!({"resourcePolicy": {"containerPolicies": [policy]}}))
}

pub(super) fn cpu_boost(boost: Value) -> Value {
    spec(json!({"startupBoost": {"cpu": boost}}))
}

/// The server answers with `code` and a message that holds every part of `expected`.
pub(crate) fn refused<T>(answer: kube::Result<T>, code: u16, expected: &[&str], what: &Value) {
    match answer {
        Ok(_) => panic!("{what} was accepted"),
        Err(Error::Api(status)) => {
            assert_eq!(status.code, code, "{what}: {}", status.message);
            for part in expected {
                assert!(
                    status.message.contains(part),
                    "{what}: {part:?} is not in {:?}",
                    status.message
                );
            }
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

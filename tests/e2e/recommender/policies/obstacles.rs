//! Obstacles between a policy and the objects that it wants: a quota, and an owner that should be
//! sized instead.

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use serde_json::{Value, json};

use super::fixture::{PolicyRoom, whole};
use super::{condition, fixture};
use crate::recommender::{fixture as base_room, scalable_kind};

#[tokio::test]
async fn an_object_that_a_quota_forbids_is_reported_and_made_when_there_is_room() -> Result<()> {
    let fixture = fixture("quota").await?;
    let quotas: Api<ResourceQuota> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    let none = json!({"metadata": {"name": "none"}, "spec": {"hard": {"count/verticalpodautoscalers.autoscaling.k8s.io": "0"}}});
    quotas
        .create(&PostParams::default(), &serde_json::from_value(none)?)
        .await?;
    fixture.deploy("one", "web").await?;
    fixture.policy("web", &json!({})).await?;
    let is_refused = |status: &Value| {
        let ready = condition(status, "Ready");
        ready.is_some_and(|ready| {
            ready["reason"] == "WriteFailed"
                && ready["message"]
                    .as_str()
                    .is_some_and(|text| text.contains("quota"))
        })
    };
    fixture
        .policy_when("web", "the quota is named", is_refused)
        .await?;
    fixture.await_event("web", "WriteFailed").await?;
    quotas.delete("none", &DeleteParams::default()).await?;
    fixture
        .policy_when("web", "it is made", |status| whole(status, 1, 1, 0, 0))
        .await
        .map(drop)
}

#[tokio::test]
async fn a_workload_under_an_owner_that_can_be_scaled_is_not_the_one_to_size() -> Result<()> {
    let base = base_room("owners").await?;
    let kind = scalable_kind(&base).await?;
    let fixture = PolicyRoom::new(base.client.clone(), &base.namespace);
    let owner = owner(&fixture, &kind, "scalable").await?;
    own(&fixture, "under", &owner).await?;
    // A quota cannot be scaled, so what it owns is the topmost.
    let quotas: Api<ResourceQuota> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    let quota = json!({"metadata": {"name": "rigid"}, "spec": {"hard": {"services": "9"}}});
    let quota = quotas
        .create(&PostParams::default(), &serde_json::from_value(quota)?)
        .await?;
    let rigid = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "name": "rigid", "uid": quota.metadata.uid, "controller": true,
    });
    own(&fixture, "second", &rigid).await?;
    fixture.policy("web", &json!({})).await?;
    fixture
        .policy_when("web", "one of the two is made", |status| {
            whole(status, 1, 1, 0, 0)
        })
        .await?;
    fixture.await_names(&["plimsoll-deployment-second"]).await
}

/// An object with a scale subresource, as the owner of others.
async fn owner(fixture: &PolicyRoom, kind: &ApiResource, name: &str) -> Result<Value> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(fixture.client.clone(), &fixture.namespace, kind);
    let object = json!({
        "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": {"replicas": 1},
        "status": {"replicas": 1, "selector": "app=under"},
    });
    let made = api
        .create(&PostParams::default(), &serde_json::from_value(object)?)
        .await?;
    Ok(json!({
        "apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": made.metadata.uid, "controller": true,
    }))
}

async fn own(fixture: &PolicyRoom, name: &str, owner: &Value) -> Result<()> {
    let labels = json!({"app": name});
    let containers = json!([{"name": "app", "image": "registry.example.com/app"}]);
    let deployment = json!({
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    });
    let deployments: Api<Deployment> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    deployments
        .create(&PostParams::default(), &serde_json::from_value(deployment)?)
        .await?;
    Ok(())
}

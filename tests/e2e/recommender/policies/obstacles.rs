//! Failed writes of a policy's VPA objects: a quota, and a controller that should be sized instead.

use anyhow::Result;
use e2e::{condition, create, message_of, workload};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use serde_json::{Value, json};

use super::fixture;
use super::fixture::PolicyFixture;
use crate::recommender::{fixture as base_room, scalable_kind};

#[tokio::test]
async fn an_object_that_a_quota_forbids_is_reported_and_made_when_there_is_room() -> Result<()> {
    let fixture = fixture("quota").await?;
    let none = json!({"hard": {"count/verticalpodautoscalers.autoscaling.k8s.io": "0"}});
    fixture.make::<ResourceQuota>("none", none).await?;
    fixture.deploy("one", "web").await?;
    fixture.policy("web", json!({})).await?;
    let names_the_quota = |status: &Value| {
        condition(status, "Ready").is_some_and(|ready| ready["reason"] == "WriteFailed")
            && message_of(status, "Ready").contains("quota")
    };
    fixture.policy_when("web", names_the_quota).await?;
    fixture.await_event("web", "WriteFailed").await?;
    fixture.delete::<ResourceQuota>("none").await?;
    fixture.counts("web", [1, 1, 0, 0]).await.map(drop)
}

#[tokio::test]
async fn a_workload_under_an_owner_that_can_be_scaled_is_not_the_one_to_size() -> Result<()> {
    let base = base_room("owners").await?;
    let kind = scalable_kind(&base).await?;
    let fixture = PolicyFixture::of(base.client.clone(), &base.namespace);
    let owner = owner(&fixture, &kind, "scalable").await?;
    own(&fixture, "under", &owner).await?;
    // A quota cannot be scaled, so what it owns is the topmost.
    let quota = json!({"hard": {"services": "9"}});
    let rigid = fixture.make::<ResourceQuota>("rigid", quota).await?;
    own(&fixture, "second", &rigid).await?;
    fixture.policy("web", json!({})).await?;
    fixture.counts("web", [1, 1, 0, 0]).await?;
    fixture.await_names(&["plimsoll-deployment-second"]).await
}

/// An object with a scale subresource.
async fn owner(fixture: &PolicyFixture, kind: &ApiResource, name: &str) -> Result<Value> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(fixture.client.clone(), &fixture.namespace, kind);
    let object = json!({
        "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": {"replicas": 1},
        "status": {"replicas": 1, "selector": "app=under"},
    });
    Ok(serde_json::to_value(create(&api, object).await?)?)
}

async fn own(fixture: &PolicyFixture, name: &str, owner: &Value) -> Result<()> {
    let mut deployment = workload(name, 0, &json!({}), &json!({}));
    let metadata = &owner["metadata"];
    deployment["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"],
        "controller": true,
    }]);
    fixture.create::<Deployment>(deployment).await?;
    Ok(())
}

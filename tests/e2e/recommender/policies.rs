//! Sizing policies, kept by the deployed recommender under the RBAC of `deploy/`.

mod custom_kinds;
mod fixture;
mod kinds;
mod many_workloads;
mod obstacles;
mod our_method;
mod scoped;
mod shards;
mod waves;

use anyhow::{Context as _, Result, ensure};
use api::sizing_policy::SizingPolicy;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{condition, is_true, kubectl, message_of, target};
use serde_json::{Value, json};

use fixture::PolicyFixture;

const MINE: &str = "VerticalPodAutoscaler/mine";
/// The VPA that a policy makes for the Deployment `one`.
const ONE: &str = "plimsoll-deployment-one";

async fn fixture(prefix: &str) -> Result<PolicyFixture> {
    let base = super::fixture(prefix).await?;
    Ok(PolicyFixture::of(base.client.clone(), &base.namespace))
}

#[tokio::test]
async fn a_policy_gives_each_workload_its_object_and_touches_no_other() -> Result<()> {
    let fixture = fixture("policy").await?;
    for (name, tier) in [("one", "web"), ("two", "web"), ("back", "back")] {
        fixture.deploy(name, tier).await?;
    }
    let mine = fixture.by_hand("mine", "two").await?;
    let spec = json!({
        "selector": {"matchLabels": {"tier": "web"}},
        "minReplicas": 2,
        "resourcePolicy": {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "2"}}]},
        "sizing": {"policy": "crane", "settings": {"cpu-target-utilization": "0.8"}},
    });
    fixture.policy("web", spec).await?;
    let policy = fixture.counts("web", [2, 1, 1, 0]).await?;
    assert_eq!(policy["status"]["conflicting"][0]["by"], MINE);
    let get = format!("-n {} get szp web --no-headers", fixture.namespace);
    let row = kubectl(&get).await?;
    let columns: Vec<&str> = row.split_whitespace().take(6).collect();
    assert_eq!(columns, ["web", "Off", "2", "1", "1", "True"], "{row}");
    let made = fixture.get::<Vpa>(ONE).await?;
    it_is_as_the_policy_says(&made, &policy);
    assert_eq!(fixture.names().await?, ["mine", ONE]);
    fixture.await_event("web", "Conflicting").await?;

    for change in [
        json!({"spec": {"updatePolicy": {"updateMode": "Recreate"}}}),
        json!({"metadata": {"labels": {"plimsoll.dev/policy": null}}}),
    ] {
        fixture.patch::<Vpa>(ONE, change).await?;
    }
    let put_back = json!({
        "spec": made["spec"], "metadata": {"labels": made["metadata"]["labels"]},
    });
    fixture.await_fields::<Vpa>(ONE, put_back).await?;

    let now = fixture.get::<Vpa>("mine").await?;
    assert_eq!(now, mine, "not a byte of it has changed");
    fixture.delete::<Vpa>("mine").await?;
    fixture.counts("web", [2, 2, 0, 0]).await?;
    let mine = fixture.by_hand("mine", "two").await?;
    fixture.counts("web", [2, 1, 1, 0]).await?;
    fixture.await_names(&["mine", ONE]).await?;

    let taken = json!({"metadata": {"ownerReferences": null}, "spec": {"updatePolicy": {"updateMode": "Initial"}}});
    fixture.patch::<Vpa>(ONE, taken).await?;
    fixture.counts("web", [2, 0, 2, 0]).await?;
    let taken = fixture.get::<Vpa>(ONE).await?;
    assert_eq!(taken["spec"]["updatePolicy"]["updateMode"], "Initial");

    fixture.label("back", "web").await?;
    fixture.counts("web", [3, 1, 2, 0]).await?;
    fixture.delete::<SizingPolicy>("web").await?;
    fixture.await_names(&["mine", ONE]).await?;
    assert_eq!(fixture.get::<Vpa>("mine").await?, mine);
    assert_eq!(fixture.get::<Vpa>(ONE).await?["spec"], taken["spec"]);
    Ok(())
}

fn it_is_as_the_policy_says(made: &Value, policy: &Value) {
    let metadata = &made["metadata"];
    let owner = json!([{
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "SizingPolicy", "name": "web",
        "uid": policy["metadata"]["uid"], "controller": true,
    }]);
    assert_eq!(metadata["ownerReferences"], owner);
    let labels = json!({"app.kubernetes.io/managed-by": "plimsoll", "plimsoll.dev/policy": "web"});
    assert_eq!(metadata["labels"], labels);
    let sizing = json!({"plimsoll.dev/sizing-policy": "crane", "plimsoll.dev/sizing-cpu-target-utilization": "0.8"});
    assert_eq!(metadata["annotations"], sizing);
    let spec = json!({
        "targetRef": target("Deployment", "one"),
        "updatePolicy": {"updateMode": "Off", "minReplicas": 2},
        "resourcePolicy": {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "2"}}]},
        "recommenders": [{"name": "e2e"}],
    });
    assert_eq!(made["spec"], spec);
}

#[tokio::test]
async fn the_policy_of_the_namespace_takes_over_and_hands_back() -> Result<()> {
    let fixture = fixture("precedence").await?;
    fixture.deploy("one", "web").await?;
    fixture.deploy("two", "back").await?;
    let cluster = fixture.namespace.clone();
    let namespaces = json!({"matchLabels": {"kubernetes.io/metadata.name": &fixture.namespace}});
    let selector = json!({"namespaceSelector": namespaces});
    fixture.cluster_policy(&cluster, selector).await?;
    let everywhere = fixture.cluster_counts(&cluster, [2, 2, 0, 0]).await?;
    let before = fixture.get::<Vpa>(ONE).await?;
    let owner = |object: &Value| object["metadata"]["ownerReferences"][0]["uid"].clone();
    assert_eq!(owner(&before), everywhere["metadata"]["uid"]);

    let web = json!({"selector": {"matchLabels": {"tier": "web"}}, "updateMode": "Initial"});
    fixture.policy("web", web).await?;
    let own = fixture.counts("web", [1, 1, 0, 0]).await?;
    let everywhere = fixture.cluster_counts(&cluster, [2, 1, 0, 1]).await?;
    let by = &everywhere["status"]["overriddenBy"][0]["by"];
    assert_eq!(by, "SizingPolicy/web");
    let after = fixture.get::<Vpa>(ONE).await?;
    // The object keeps its history.
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(owner(&after), own["metadata"]["uid"]);
    assert_eq!(after["spec"]["updatePolicy"]["updateMode"], "Initial");

    fixture.delete::<SizingPolicy>("web").await?;
    fixture.cluster_counts(&cluster, [2, 2, 0, 0]).await?;
    let of_cluster = json!({
        "metadata": {"ownerReferences": [{"uid": everywhere["metadata"]["uid"]}]},
        "spec": {"updatePolicy": {"updateMode": "Off"}},
    });
    fixture.await_fields::<Vpa>(ONE, of_cluster).await?;
    fixture.delete_cluster_policy(&cluster).await?;
    fixture.await_names(&[]).await
}

#[tokio::test]
async fn a_policy_that_cannot_be_used_says_so_and_changes_nothing() -> Result<()> {
    let fixture = fixture("unusable").await?;
    fixture.deploy("one", "web").await?;
    fixture.policy("web", json!({})).await?;
    fixture.counts("web", [1, 1, 0, 0]).await?;
    let before = fixture.get::<Vpa>(ONE).await?;
    let broken =
        json!({"spec": {"sizing": {"policy": "crane", "settings": {"no-such-thing": "1"}}}});
    fixture.patch::<SizingPolicy>("web", broken).await?;
    let policy = fixture
        .policy_when("web", |status| !is_true(status, "Ready"))
        .await?;
    let ready = condition(&policy["status"], "Ready").context("there is the condition")?;
    assert_eq!(ready["reason"], "InvalidSizing");
    let message = message_of(&policy["status"], "Ready");
    ensure!(message.contains("no-such-thing"), "{ready}");
    fixture.await_event("web", "InvalidSizing").await?;
    assert_eq!(fixture.get::<Vpa>(ONE).await?["spec"], before["spec"]);
    Ok(())
}

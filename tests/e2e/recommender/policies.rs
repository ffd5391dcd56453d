//! Sizing policies, kept by the deployed recommender under the RBAC of `deploy/`.

mod fixture;
mod kinds;
mod obstacles;
mod process;
mod scoped;
mod shards;
mod thousand;

use anyhow::{Context as _, Result, ensure};
use e2e::{kubectl, shared};
use serde_json::{Value, json};

use super::fixture as base;
use fixture::{PolicyRoom, whole};

const MINE: &str = "VerticalPodAutoscaler/mine";

async fn fixture(prefix: &str) -> Result<PolicyRoom> {
    let base = super::fixture(prefix).await?;
    Ok(PolicyRoom::new(
        shared().await?.client().await?,
        &base.namespace,
    ))
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
    fixture.policy("web", &spec).await?;
    let policy = fixture
        .policy_when("web", "one is made, one is left", |status| {
            whole(status, 2, 1, 1, 0)
        })
        .await?;
    assert_eq!(policy["status"]["conflicting"][0]["by"], MINE);
    let row = kubectl(&[
        "-n",
        &fixture.namespace,
        "get",
        "szp",
        "web",
        "--no-headers",
    ])
    .await?;
    let columns: Vec<&str> = row.split_whitespace().take(6).collect();
    assert_eq!(columns, ["web", "Off", "2", "1", "1", "True"], "{row}");
    let made = fixture.autoscaler("plimsoll-deployment-one").await?;
    it_is_as_the_policy_says(&made, &policy);
    assert_eq!(fixture.names().await?, ["mine", "plimsoll-deployment-one"]);
    fixture.await_event("web", "Conflicting").await?;

    fixture
        .patch(
            "plimsoll-deployment-one",
            &json!({"spec": {"updatePolicy": {"updateMode": "Recreate"}}}),
        )
        .await?;
    fixture
        .patch(
            "plimsoll-deployment-one",
            &json!({"metadata": {"labels": {"plimsoll.dev/policy": null}}}),
        )
        .await?;
    fixture
        .autoscaler_when("plimsoll-deployment-one", "it is put back", |object| {
            object["spec"] == made["spec"]
                && object["metadata"]["labels"] == made["metadata"]["labels"]
        })
        .await?;

    assert_eq!(
        fixture.autoscaler("mine").await?,
        mine,
        "not a byte of it has changed"
    );
    fixture.delete_autoscaler("mine").await?;
    fixture
        .policy_when("web", "both are made", |status| whole(status, 2, 2, 0, 0))
        .await?;
    let mine = fixture.by_hand("mine", "two").await?;
    fixture
        .policy_when("web", "one goes again", |status| whole(status, 2, 1, 1, 0))
        .await?;
    fixture
        .await_names(&["mine", "plimsoll-deployment-one"])
        .await?;

    let taken = json!({"metadata": {"ownerReferences": null}, "spec": {"updatePolicy": {"updateMode": "Initial"}}});
    fixture.patch("plimsoll-deployment-one", &taken).await?;
    fixture
        .policy_when("web", "it has another owner now", |status| {
            whole(status, 2, 0, 2, 0)
        })
        .await?;
    let taken = fixture.autoscaler("plimsoll-deployment-one").await?;
    assert_eq!(taken["spec"]["updatePolicy"]["updateMode"], "Initial");

    fixture.label("back", "web").await?;
    fixture
        .policy_when("web", "a workload is relabelled", |status| {
            whole(status, 3, 1, 2, 0)
        })
        .await?;
    fixture.delete_policy("web").await?;
    fixture
        .await_names(&["mine", "plimsoll-deployment-one"])
        .await?;
    assert_eq!(fixture.autoscaler("mine").await?, mine);
    assert_eq!(
        fixture.autoscaler("plimsoll-deployment-one").await?["spec"],
        taken["spec"]
    );
    Ok(())
}

fn it_is_as_the_policy_says(made: &Value, policy: &Value) {
    let metadata = &made["metadata"];
    let owner = json!([{
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "SizingPolicy", "name": "web",
        "uid": policy["metadata"]["uid"], "controller": true,
    }]);
    assert_eq!(metadata["ownerReferences"], owner);
    assert_eq!(
        metadata["labels"],
        json!({"app.kubernetes.io/managed-by": "plimsoll", "plimsoll.dev/policy": "web"})
    );
    let sizing = json!({"plimsoll.dev/sizing-policy": "crane", "plimsoll.dev/sizing-cpu-target-utilization": "0.8"});
    assert_eq!(metadata["annotations"], sizing);
    assert_eq!(
        made["spec"],
        json!({
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "one"},
            "updatePolicy": {"updateMode": "Off", "minReplicas": 2},
            "resourcePolicy": {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "2"}}]},
            "recommenders": [{"name": "e2e"}],
        })
    );
}

#[tokio::test]
async fn the_policy_of_the_namespace_takes_over_and_hands_back() -> Result<()> {
    let fixture = fixture("precedence").await?;
    fixture.deploy("one", "web").await?;
    fixture.deploy("two", "back").await?;
    let cluster = fixture.namespace.clone();
    let namespaces = json!({"matchLabels": {"kubernetes.io/metadata.name": &fixture.namespace}});
    fixture
        .cluster_policy(&cluster, &json!({"namespaceSelector": namespaces}))
        .await?;
    let everywhere = fixture
        .cluster_policy_when(&cluster, "it has both", |status| whole(status, 2, 2, 0, 0))
        .await?;
    let before = fixture.autoscaler("plimsoll-deployment-one").await?;
    let owner = |object: &Value| object["metadata"]["ownerReferences"][0]["uid"].clone();
    assert_eq!(owner(&before), everywhere["metadata"]["uid"]);

    let web = json!({"selector": {"matchLabels": {"tier": "web"}}, "updateMode": "Initial"});
    fixture.policy("web", &web).await?;
    let own = fixture
        .policy_when("web", "it has one", |status| whole(status, 1, 1, 0, 0))
        .await?;
    let everywhere = fixture
        .cluster_policy_when(&cluster, "it has the other", |status| {
            whole(status, 2, 1, 0, 1)
        })
        .await?;
    assert_eq!(
        everywhere["status"]["overriddenBy"][0]["by"],
        "SizingPolicy/web"
    );
    let after = fixture.autoscaler("plimsoll-deployment-one").await?;
    assert_eq!(
        after["metadata"]["uid"], before["metadata"]["uid"],
        "the object keeps its history"
    );
    assert_eq!(
        (owner(&after), &after["spec"]["updatePolicy"]["updateMode"]),
        (own["metadata"]["uid"].clone(), &json!("Initial"))
    );

    fixture.delete_policy("web").await?;
    fixture
        .cluster_policy_when(&cluster, "it has both again", |status| {
            whole(status, 2, 2, 0, 0)
        })
        .await?;
    fixture
        .autoscaler_when("plimsoll-deployment-one", "it is the cluster's", |object| {
            owner(object) == everywhere["metadata"]["uid"]
                && object["spec"]["updatePolicy"]["updateMode"] == "Off"
        })
        .await?;
    fixture.delete_cluster_policy(&cluster).await?;
    fixture.await_names(&[]).await
}

#[tokio::test]
async fn a_policy_that_cannot_be_used_says_so_and_changes_nothing() -> Result<()> {
    let fixture = fixture("unusable").await?;
    fixture.deploy("one", "web").await?;
    fixture.policy("web", &json!({})).await?;
    fixture
        .policy_when("web", "it is made", |status| whole(status, 1, 1, 0, 0))
        .await?;
    let before = fixture.autoscaler("plimsoll-deployment-one").await?;
    let broken =
        json!({"spec": {"sizing": {"policy": "crane", "settings": {"no-such-thing": "1"}}}});
    fixture.patch_policy("web", &broken).await?;
    let policy = fixture
        .policy_when("web", "it is refused", |status| !is_ready(status))
        .await?;
    let ready = condition(&policy["status"], "Ready").context("there is the condition")?;
    assert_eq!(ready["reason"], "InvalidSizing");
    ensure!(
        ready["message"]
            .as_str()
            .is_some_and(|message| message.contains("no-such-thing")),
        "{ready}"
    );
    fixture.await_event("web", "InvalidSizing").await?;
    assert_eq!(
        fixture.autoscaler("plimsoll-deployment-one").await?["spec"],
        before["spec"]
    );
    Ok(())
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

fn is_ready(status: &Value) -> bool {
    condition(status, "Ready").is_some_and(|ready| ready["status"] == "True")
}

//! Two shards of a recommender: each keeps the objects in its namespaces, and the first says of a
//! cluster's policy what both found.

use anyhow::Result;
use e2e::deployment::SYSTEM;
use e2e::process::account_file;
use e2e::{kubectl, message_of, shared};
use serde_json::{Value, json};

use super::fixture::{PolicyFixture, start};
use super::{ONE, fixture};

/// Of two shards, the first has this namespace and the second the other.
const NAMESPACES: [&str; 2] = ["search", "billing"];

#[tokio::test]
async fn the_first_shard_tells_of_a_policy_what_both_found() -> Result<()> {
    // The account and its rights come with the deployment.
    drop(fixture("shards").await?);
    let client = shared().await?.client().await?;
    for namespace in NAMESPACES {
        kubectl(&format!("create namespace {namespace}")).await?;
        kubectl(&format!("label namespace {namespace} divided=yes")).await?;
    }
    let [first, second] = NAMESPACES
        .map(|namespace| PolicyFixture::of(client.clone(), namespace).of_recommender("divided"));
    first.deploy("one", "web").await?;
    second.deploy("two", "web").await?;
    let selector = json!({"namespaceSelector": {"matchLabels": {"divided": "yes"}}});
    first.cluster_policy("divided", selector).await?;

    let account = account_file(shared().await?, SYSTEM, "plimsoll-recommender").await?;
    let logs = shared().await?.logs_dir();
    let shard = |index: u8| {
        let log = logs.join(format!("recommender-shard-{index}.log"));
        let shard = format!("--shard={index}/2");
        start(&account, &["--recommender-name=divided", &shard], &log)
    };
    let _first = shard(0)?;
    let is_half = |status: &Value| {
        status["managed"] == 1 && message_of(status, "Ready") == "shard 1 has not reported yet"
    };
    first.cluster_policy_when("divided", is_half).await?;
    let _second = shard(1)?;
    let policy = first.cluster_counts("divided", [2, 2, 0, 0]).await?;
    assert_eq!(policy["status"]["shards"]["1"]["managed"], 1);
    first.await_names(&[ONE]).await?;
    second.await_names(&["plimsoll-deployment-two"]).await?;

    second.by_hand("mine", "two").await?;
    let policy = first.cluster_counts("divided", [2, 1, 1, 0]).await?;
    assert_eq!(policy["status"]["conflicting"][0]["namespace"], "billing");
    first.delete_cluster_policy("divided").await?;
    first.await_names(&[]).await
}

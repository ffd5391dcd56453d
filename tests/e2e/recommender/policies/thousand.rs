//! A thousand workloads at once. They keep a control plane busy, so they have one of their own;
//! there the kinds of policies come later than the recommender.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{another, deployed, eventually, kubectl_in, namespace};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fixture::{PolicyRoom, whole};
use crate::recommender::deployed::deploy;

const WORKLOADS: usize = 1000;
/// Each step takes seconds; a machine that does other things at the same time may take a minute or
/// two.
const PATIENCE: Duration = Duration::from_mins(5);

#[tokio::test]
async fn a_thousand_workloads_get_their_objects_and_lose_them_with_the_policy() -> Result<()> {
    let sandbox = another("policies").await?;
    deploy(&sandbox).await?;
    without_the_kinds(&sandbox).await?;
    let client = sandbox.client().await?;
    let fixture = PolicyRoom::new(client.clone(), &namespace(&client, "crowd").await?);
    let names = (0..WORKLOADS).map(|number| format!("web-{number}"));
    let deploying = stream::iter(names).map(|name| {
        let fixture = &fixture;
        async move { fixture.deploy(&name, "web").await }
    });
    deploying
        .buffer_unordered(16)
        .try_collect::<Vec<()>>()
        .await?;
    let mine = fixture.by_hand("mine", "web-500").await?;

    e2e::apply(&sandbox, "deploy/crds").await?;
    let web = json!({"selector": {"matchLabels": {"tier": "web"}}, "resourcePolicy": bounds("1")});
    let apply = async || fixture.policy("web", &web).await;
    eventually("the kinds are there", PATIENCE, apply).await?;
    let started = Instant::now();
    policy_when(&fixture, "all but one have their objects", |status| {
        whole(status, 1000, 999, 1, 0)
    })
    .await?;
    println!(
        "999 objects were made within {:.1} s",
        started.elapsed().as_secs_f64()
    );
    all_have_bounds(&fixture, "1").await?;
    eventually("a metric counts them", PATIENCE, async || {
        let leader = deployed::leader(&client).await?;
        let managed = deployed::metric(
            &leader,
            "vpa_recommender_sizing_policy_workloads{state=\"managed\"}",
        )
        .await?;
        ensure!((managed - 999.0).abs() < 0.5, "{managed} are managed");
        Ok(())
    })
    .await?;

    let started = Instant::now();
    fixture
        .patch_policy("web", &json!({"spec": {"resourcePolicy": bounds("2")}}))
        .await?;
    policy_when(&fixture, "all are changed", |status| {
        whole(status, 1000, 999, 1, 0)
    })
    .await?;
    println!(
        "999 objects were changed within {:.1} s",
        started.elapsed().as_secs_f64()
    );
    all_have_bounds(&fixture, "2").await?;

    let started = Instant::now();
    fixture.label("web-7", "back").await?;
    policy_when(&fixture, "one goes", |status| whole(status, 999, 998, 1, 0)).await?;
    println!(
        "the object of a workload that is no longer selected went within {:.1} s",
        started.elapsed().as_secs_f64()
    );
    let names = fixture.names().await?;
    ensure!(
        names.len() == 999 && !names.contains(&"plimsoll-deployment-web-7".to_owned()),
        "{}",
        names.len()
    );

    let started = Instant::now();
    fixture.delete_policy("web").await?;
    eventually("all of its objects are gone", PATIENCE, async || {
        let names = fixture.names().await?;
        ensure!(names == ["mine"], "{} are left", names.len());
        Ok(())
    })
    .await?;
    println!(
        "998 objects went with the policy within {:.1} s",
        started.elapsed().as_secs_f64()
    );
    assert_eq!(
        fixture.autoscaler("mine").await?,
        mine,
        "not a byte of it has changed"
    );
    sandbox.down().await
}

/// As in a cluster of upstream's: the recommender starts without the definitions of policies.
async fn without_the_kinds(sandbox: &Sandbox) -> Result<()> {
    let kinds = [
        "sizingpolicies.plimsoll.dev",
        "clustersizingpolicies.plimsoll.dev",
    ];
    kubectl_in(sandbox, &["delete", "crd", kinds[0], kinds[1]]).await?;
    let deployment = "deployment/plimsoll-recommender";
    kubectl_in(
        sandbox,
        &["-n", "plimsoll-system", "rollout", "restart", deployment],
    )
    .await?;
    kubectl_in(
        sandbox,
        &[
            "-n",
            "plimsoll-system",
            "rollout",
            "status",
            deployment,
            "--timeout=240s",
        ],
    )
    .await?;
    Ok(())
}

fn bounds(cpu: &str) -> Value {
    json!({"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": cpu}}]})
}

async fn policy_when(
    fixture: &PolicyRoom,
    what: &str,
    is_so: impl Fn(&Value) -> bool + Copy,
) -> Result<()> {
    eventually(what, PATIENCE, async || {
        fixture.policy_now("web", is_so).await.map(drop)
    })
    .await
}

async fn all_have_bounds(fixture: &PolicyRoom, cpu: &str) -> Result<()> {
    let objects = fixture.autoscalers().await?;
    let ours = objects
        .iter()
        .filter(|object| object["metadata"]["name"] != "mine");
    let count = ours
        .filter(|object| object["spec"]["resourcePolicy"] == bounds(cpu))
        .count();
    ensure!(
        count == 999 && objects.len() == 1000,
        "{count} of {} have {cpu}",
        objects.len()
    );
    Ok(())
}

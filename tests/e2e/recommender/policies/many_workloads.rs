//! Three hundred workloads at once. They keep a control plane busy, so they have one of their own;
//! there the kinds of policies come later than the recommender.

use anyhow::{Result, ensure};
use api::sizing_policy::SizingPolicy;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{RECOMMENDER, leader, metric};
use e2e::{another, eventually, in_parallel, kubectl_in, namespace};
use sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fixture::PolicyFixture;
use crate::recommender::deploy;

const WORKLOADS: usize = 300;
const MANAGED: &str = "vpa_recommender_sizing_policy_workloads{state=\"managed\"}";

#[tokio::test]
async fn three_hundred_workloads_get_their_objects_and_lose_them_with_the_policy() -> Result<()> {
    let sandbox = another("policies").await?;
    deploy(&sandbox).await?;
    without_the_kinds(&sandbox).await?;
    let client = sandbox.client().await?;
    let fixture = PolicyFixture::of(client.clone(), &namespace(&client, "crowd").await?);
    let names = (0..WORKLOADS).map(|number| format!("web-{number}"));
    let deploy = async |name: String| fixture.deploy(&name, "web").await;
    in_parallel(16, names.map(deploy)).await?;
    let mine = fixture.by_hand("mine", "web-250").await?;

    e2e::apply(&sandbox, "deploy/crds").await?;
    let web = json!({"selector": {"matchLabels": {"tier": "web"}}, "resourcePolicy": bounds("1")});
    let apply = async || fixture.policy("web", web.clone()).await;
    eventually("the kinds are there", apply).await?;
    let started = Instant::now();
    fixture.counts("web", [300, 299, 1, 0]).await?;
    println!("299 objects were made within {:.1?}", started.elapsed());
    all_have_bounds(&fixture, "1").await?;
    eventually("a metric counts them", async || {
        let managed = metric(&leader(&client, RECOMMENDER).await?, MANAGED).await?;
        ensure!((managed - 299.0).abs() < 0.5, "{managed} are managed");
        Ok(())
    })
    .await?;

    let started = Instant::now();
    let changed = json!({"spec": {"resourcePolicy": bounds("2")}});
    fixture.patch::<SizingPolicy>("web", changed).await?;
    fixture.counts("web", [300, 299, 1, 0]).await?;
    println!("299 objects were changed within {:.1?}", started.elapsed());
    all_have_bounds(&fixture, "2").await?;

    let started = Instant::now();
    fixture.label("web-7", "back").await?;
    fixture.counts("web", [299, 298, 1, 0]).await?;
    let took = started.elapsed();
    println!("the object of a workload that is no longer selected went within {took:.1?}");
    let names = fixture.names().await?;
    let has_it = names.contains(&"plimsoll-deployment-web-7".to_owned());
    ensure!(names.len() == 299 && !has_it, "{}", names.len());

    let started = Instant::now();
    fixture.delete::<SizingPolicy>("web").await?;
    eventually("all of its objects are gone", async || {
        let names = fixture.names().await?;
        ensure!(names == ["mine"], "{} are left", names.len());
        Ok(())
    })
    .await?;
    let took = started.elapsed();
    println!("298 objects went with the policy within {took:.1?}");
    let now = fixture.get::<Vpa>("mine").await?;
    assert_eq!(now, mine, "not a byte of it has changed");
    sandbox.down().await
}

/// As in a cluster of upstream's: the recommender starts without the definitions of policies.
async fn without_the_kinds(sandbox: &Sandbox) -> Result<()> {
    for command in [
        "delete crd sizingpolicies.plimsoll.dev clustersizingpolicies.plimsoll.dev",
        "-n plimsoll-system rollout restart deployment/plimsoll-recommender",
        "-n plimsoll-system rollout status deployment/plimsoll-recommender --timeout=240s",
    ] {
        kubectl_in(sandbox, command).await?;
    }
    Ok(())
}

fn bounds(cpu: &str) -> Value {
    json!({"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": cpu}}]})
}

async fn all_have_bounds(fixture: &PolicyFixture, cpu: &str) -> Result<()> {
    let objects = fixture.list::<Vpa>().await?;
    let ours = objects.iter().filter(|it| it["metadata"]["name"] != "mine");
    let count = ours.filter(|it| it["spec"]["resourcePolicy"] == bounds(cpu));
    let (count, all) = (count.count(), objects.len());
    ensure!((count, all) == (299, 300), "{count} of {all} have {cpu}");
    Ok(())
}

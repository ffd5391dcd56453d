//! Containers that their CPU limit throttles: their usage is at most the limit.

use std::time::Instant;

use anyhow::{Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::eventually;
use serde_json::json;

use super::cgroups::cpu_periods;
use super::fixture::{Amount, Fixture, or_skip, pod_of, resources};

/// Millicores that each program uses if it gets them, and those of its request and limit.
const WANTED: i64 = 300;
const LIMIT: i64 = 100;

/// The share of CPU periods in which the pod of an app is throttled, in a second.
async fn throttled(cluster: &Fixture, app: &str) -> Result<f64> {
    let pod = cluster.pod(app).await?;
    let [periods, throttled] = cpu_periods(cluster, &pod)?;
    let share = eventually("ten more periods", async || {
        let [now, throttled_now] = cpu_periods(cluster, &pod)?;
        ensure!(now >= periods + 10, "{now} {periods}");
        Ok((throttled_now - throttled) as f64 / (now - periods) as f64)
    });
    share.await
}

#[tokio::test]
async fn our_method_gives_a_throttled_container_what_it_needs() -> Result<()> {
    let cluster = or_skip!(Fixture::new("throttled"));
    let limit = format!("{LIMIT}m");
    let size = resources([&limit, "50Mi"], [&limit, "50Mi"]);
    let pod = pod_of(&[&format!("--cpu-millicores={WANTED}")], &size);
    let cpu_only = json!({"containerName": "*", "controlledResources": ["cpu"]});
    for (name, method) in [("ours", "plimsoll"), ("upstreams", "vpa")] {
        cluster.deploy(name, 1, &pod).await?;
        eventually("it is throttled", async || {
            let share = throttled(&cluster, name).await?;
            ensure!(share > 0.5, "{share}");
            Ok(())
        })
        .await?;
        (cluster.autoscale(name, "InPlaceOrRecreate", cpu_only.clone())).await?;
        let change = json!({
            "metadata": {"annotations": {"plimsoll.dev/sizing-policy": method}},
            "spec": {"updatePolicy": {"minReplicas": 1}},
        });
        cluster.patch::<Vpa>(name, change).await?;
    }
    let began = Instant::now();
    let request = async |name: &str| Amount::in_effect(&cluster.pod(name).await?);
    eventually("it has what it needs", async || {
        let now = request("ours").await?;
        ensure!(now.cpu >= WANTED, "{now:?}");
        Ok(())
    })
    .await?;
    eventually(
        "it is throttled in less than 1 % of its periods",
        async || {
            let share = throttled(&cluster, "ours").await?;
            ensure!(share < 0.01, "{share}");
            Ok(())
        },
    )
    .await?;
    eprintln!("throttled in less than 1 % after {:?}", began.elapsed());
    let (ours, upstreams) = (request("ours").await?, request("upstreams").await?);
    let share = throttled(&cluster, "upstreams").await?;
    eprintln!("ours: {ours:?}, upstream's: {upstreams:?}, throttled {share}");
    ensure!(upstreams.cpu < WANTED, "{upstreams:?}");
    Ok(())
}

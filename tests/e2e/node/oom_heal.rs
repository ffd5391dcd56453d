//! From the kernel's OOM kill to a container that can use the memory.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::oom_kills_of;
use kube::ResourceExt as _;
use model::{Memory, Quantity};
use serde_json::json;

use super::fixture::{Fixture, container};

/// Memory that the program needs: three times its limit.
const NEEDED_MIB: u64 = 600;

/// A program that takes its memory some seconds after its start.
#[tokio::test]
async fn an_oom_kill_is_healed_in_place() -> Result<()> {
    let Some(cluster) = Fixture::new("oom").await? else {
        return Ok(());
    };
    let resources = json!({
        "requests": {"cpu": "10m", "memory": "200Mi"},
        "limits": {"memory": "200Mi"},
    });
    let flags = ["--memory-mib=600", "--memory-after-seconds=6"];
    let pod = json!({
        "containers": [container("app", &flags, &resources)],
        "terminationGracePeriodSeconds": 1,
    });
    cluster.deploy("hungry", 2, pod).await?;
    let policy = json!({"containerName": "*", "minAllowed": {"memory": "200Mi"}});
    cluster
        .autoscale("hungry", "InPlaceOrRecreate", policy)
        .await?;
    let load = cluster
        .holds("hungry", NEEDED_MIB, Duration::from_mins(3))
        .await?;
    let pod = cluster.pod("hungry").await?;
    let kills = oom_kills_of(&pod.uid().unwrap_or_default())?;
    eprintln!("kills {kills:?} {load:?} {pod:?}");
    let vpa = cluster.get::<Vpa>("hungry").await?;
    let target = &vpa["status"]["recommendation"]["containerRecommendations"][0]["target"];
    let target: Quantity = target["memory"].as_str().context("a target")?.parse()?;
    let target = Memory::from(&target);
    ensure!(false, "{target:?}");
    Ok(())
}

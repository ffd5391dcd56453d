//! Many objects at once. They keep a control plane busy, so they have one of their own.

use anyhow::{Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{RECOMMENDER, deploy, leader, metric};
use e2e::{another, eventually, in_parallel, until};
use tokio::time::Instant;

use super::CPU_OF_240M;
use super::fixture::Fixture;

/// In one namespace. `make bench-scale` has 10,000 in a cluster.
const CROWD: usize = 500;

#[tokio::test]
async fn five_hundred_objects_all_get_a_status() -> Result<()> {
    let sandbox = another("crowd").await?;
    deploy(&sandbox, "tests/e2e/many_objects", RECOMMENDER.labels).await?;
    let fixture = Fixture::new(sandbox.client().await?, "shop").await?;
    fixture.deploy("crowd", 2, "240m", "300Mi").await?;
    let started = Instant::now();
    let names = || (0..CROWD).map(|number| format!("crowd-{number}"));
    let autoscale = async |name: String| fixture.autoscale(&name, "crowd").await;
    in_parallel(32, names().map(autoscale)).await?;
    println!(
        "{CROWD} objects were made within {:.1} s",
        started.elapsed().as_secs_f64()
    );
    let made = Instant::now();
    until(
        "each has its target",
        async || fixture.count_with_target("crowd", CPU_OF_240M).await,
        |count| *count == CROWD,
    )
    .await?;
    println!(
        "all had their recommendation {:.1} s after that",
        made.elapsed().as_secs_f64()
    );
    // One request for all deletes one after the other, and ends unfinished after a minute.
    let delete = async |name: String| fixture.delete::<Vpa>(&name).await;
    in_parallel(32, names().map(delete)).await?;
    eventually("the recommender forgets them", async || {
        let writes = leader(&fixture.client, RECOMMENDER).await?;
        let known = metric(&writes, "vpa_recommender_vpa_objects_count").await?;
        ensure!(known < 100.0, "it knows {known}");
        Ok(())
    })
    .await?;
    println!(
        "they were gone {:.1} s after the start",
        started.elapsed().as_secs_f64()
    );
    sandbox.down().await
}

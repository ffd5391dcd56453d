//! Objects of one manifest that arrive one after the other.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::deployment::scrape;
use e2e::{AvailabilityWatch, Namespace, eventually};
use k8s_openapi::api::core::v1::LimitRange;
use serde_json::json;

use super::fixture::{Fixture, SMALL};

const REPLICAS: usize = 3;
/// Longer than a busy machine takes to create the objects of a manifest.
const TIME: Duration = Duration::from_mins(1);
const SETTLING: &str = "vpa_updater_skipped_pods{reason=\"settling\"} ";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_pod_is_evicted_before_all_of_a_manifest_is_there() -> Result<()> {
    let mut fixture = Fixture::alone("guarded").await?;
    let heart = fixture.heart();
    fixture.settle_for("60s").await?;
    let outcome = in_pieces(&mut fixture).await;
    fixture.settle_for("0s").await?;
    outcome?;
    heart.stop().await
}

/// A workload whose `LimitRange` and budget come after its VPA object, and in another namespace one
/// that has none.
async fn in_pieces(fixture: &mut Fixture) -> Result<()> {
    fixture.workload("guarded", REPLICAS, &json!({})).await?;
    let guarded = fixture.own.clone();
    let watching = AvailabilityWatch::of(fixture.typed()).await?;
    let before = fixture.uids("guarded").await?;
    fixture.autoscale("guarded", "Recreate").await?;
    settling(fixture, REPLICAS..usize::MAX).await?;
    let limits = json!({
        "metadata": {"name": "small"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": SMALL}}]},
    });
    fixture.create::<LimitRange>(limits).await?;
    fixture.protect("guarded", REPLICAS).await?;

    fixture.own = Namespace::new(fixture.client.clone(), "free").await?;
    fixture.workload("free", REPLICAS, &json!({})).await?;
    let free_before = fixture.uids("free").await?;
    let made = Instant::now();
    fixture.autoscale("free", "Recreate").await?;
    eventually("the first pod is evicted", async || {
        ensure!(fixture.uids("free").await? != free_before, "none is");
        Ok(())
    })
    .await?;
    ensure!(
        made.elapsed() >= TIME,
        "a pod was evicted after {:?}",
        made.elapsed()
    );
    fixture.all_large("free", REPLICAS).await?;

    settling(fixture, 0..1).await?;
    fixture.own = guarded;
    ensure!(
        fixture.uids("guarded").await? == before,
        "its pods are the same"
    );
    let fewest = watching.fewest("guarded", &before).await?;
    ensure!(fewest == REPLICAS, "{fewest} were left");
    Ok(())
}

/// Waits until pods wait since something was just changed, or none do.
async fn settling(fixture: &Fixture, expected: Range<usize>) -> Result<()> {
    eventually(&format!("{expected:?} pods wait"), async || {
        let metrics = scrape(&fixture.leader().await?).await?;
        // Without any there is no such series.
        let found = metrics
            .lines()
            .find_map(|line| line.strip_prefix(SETTLING))
            .unwrap_or("0")
            .parse()?;
        ensure!(expected.contains(&found), "{found} do");
        Ok(())
    })
    .await
}

//! Objects of one manifest that arrive one after the other.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::deployed::scrape;
use e2e::{Watching, eventually, namespace};
use k8s_openapi::api::core::v1::LimitRange;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::fixture::{Fixture, PATIENCE, SMALL};

const REPLICAS: usize = 3;
const TIME: Duration = Duration::from_secs(10);
const SETTLING: &str = "vpa_updater_skipped_pods{reason=\"settling\"} ";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_pod_is_evicted_before_all_of_a_manifest_is_there() -> Result<()> {
    let mut fixture = Fixture::take("guarded").await?;
    let heart = fixture.heart();
    fixture.settle_for("10s").await?;
    let outcome = in_pieces(&mut fixture).await;
    fixture.settle_for("0s").await?;
    outcome?;
    heart.stop().await
}

/// A workload whose `LimitRange` and budget come after its VPA object, and in another namespace one
/// that has none.
async fn in_pieces(fixture: &mut Fixture) -> Result<()> {
    fixture.workload("guarded", REPLICAS, &json!({})).await?;
    let guarded = (fixture.namespace.clone(), fixture.pods.clone());
    let watching = Watching::of(fixture.pods.clone()).await?;
    let before = sorted(fixture, "guarded").await?;
    fixture
        .autoscale("guarded", &json!({"updateMode": "Recreate"}))
        .await?;
    settling(fixture, REPLICAS..usize::MAX).await?;
    let limits = json!({
        "metadata": {"name": "small"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": SMALL}}]},
    });
    let ranges: Api<LimitRange> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    ranges
        .create(&PostParams::default(), &serde_json::from_value(limits)?)
        .await?;
    fixture.protect("guarded", REPLICAS).await?;

    fixture.namespace = namespace(&fixture.client, "free").await?;
    fixture.pods = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    fixture.workload("free", REPLICAS, &json!({})).await?;
    let free_before = sorted(fixture, "free").await?;
    let made = Instant::now();
    fixture
        .autoscale("free", &json!({"updateMode": "Recreate"}))
        .await?;
    eventually("the first pod is evicted", PATIENCE, async || {
        ensure!(sorted(fixture, "free").await? != free_before, "none is");
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
    (fixture.namespace, fixture.pods) = guarded;
    ensure!(
        sorted(fixture, "guarded").await? == before,
        "its pods are the same"
    );
    let fewest = watching.fewest("guarded", &before).await?;
    ensure!(fewest == REPLICAS, "{fewest} were left");
    Ok(())
}

/// Waits until pods wait since something was just changed, or none do.
async fn settling(fixture: &Fixture, expected: Range<usize>) -> Result<()> {
    eventually(&format!("{expected:?} pods wait"), PATIENCE, async || {
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

async fn sorted(fixture: &Fixture, workload: &str) -> Result<Vec<String>> {
    let mut uids: Vec<String> = fixture
        .sizes(workload)
        .await?
        .into_iter()
        .map(|(uid, _)| uid)
        .collect();
    uids.sort();
    Ok(uids)
}

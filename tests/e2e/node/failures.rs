//! Failures of the node below running containers, and of the suite itself.

use anyhow::{Context as _, Result};
use sandbox::Component;

use super::fixture::Fixture;
use super::replaced;
use super::settled::Settled;

/// Renewals of the Leases of recommender and updater, every two seconds, for which a part of the
/// node stays down: several of their rounds.
const ROUNDS: usize = 5;

/// One after the other, since a workload is settled only after a minute.
#[tokio::test]
async fn nothing_is_lost_and_no_act_is_wrong_while_parts_of_the_cluster_fail() -> Result<()> {
    let Some(cluster) = Fixture::alone("failures").await? else {
        return Ok(());
    };
    let settled = Settled::new(&cluster).await?;
    container_runtime_is_down(&settled)
        .await
        .context("container runtime down")?;
    kubelet_is_down(&settled).await.context("kubelet down")?;
    replaced::all_programs(&settled).await
}

/// Containers run on, and the restarted runtime finds them.
async fn container_runtime_is_down(settled: &Settled<'_>) -> Result<()> {
    let sandbox = settled.cluster.sandbox();
    let before = settled.observed().await?;
    sandbox.stop(Component::Containerd).await?;
    settled.renewed(ROUNDS).await?;
    settled.is_still(&before).await?;
    sandbox.start(Component::Containerd).await?;
    settled.measured(true).await?;
    settled.is_still(&before).await?;
    let target = settled.ask_for_more(&before).await?;
    settled.resized(&before, target).await.map(drop)
}

/// No usage is known meanwhile, and no resize is done. Containers run on.
async fn kubelet_is_down(settled: &Settled<'_>) -> Result<()> {
    let sandbox = settled.cluster.sandbox();
    let before = settled.observed().await?;
    sandbox.stop(Component::Kubelet).await?;
    settled.measured(false).await?;
    settled.renewed(ROUNDS).await?;
    settled.is_still(&before).await?;
    // A resize that no kubelet does is not replaced by an eviction.
    let target = settled.ask_for_more(&before).await?;
    settled.renewed(ROUNDS).await?;
    sandbox.start(Component::Kubelet).await?;
    let resized = settled.resized(&before, target).await?;
    settled.measured(true).await?;
    settled.renewed(ROUNDS).await?;
    settled.is_still(&resized).await
}

//! Failures of the node below running containers.

use anyhow::{Context as _, Result};
use e2e::real_node;
use sandbox::Component;

use super::fixture::Fixture;
use super::settled::Settled;

/// Renewals of the Leases of recommender and updater, every two seconds, for which a part of the
/// node stays down: several of their rounds.
const ROUNDS: usize = 5;

/// No usage is known meanwhile, and no resize is done. Containers run on.
#[tokio::test]
async fn a_kubelet_that_is_down_causes_no_act_and_loses_no_history() -> Result<()> {
    let Some(cluster) = Fixture::alone("kubelet").await? else {
        return Ok(());
    };
    let sandbox = real_node().await?.context("the cluster has a node")?;
    let settled = Settled::new(&cluster).await?;
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

/// Containers run on, and the restarted runtime finds them.
#[tokio::test]
async fn a_container_runtime_that_is_down_causes_no_act_and_loses_no_history() -> Result<()> {
    let Some(cluster) = Fixture::alone("runtime").await? else {
        return Ok(());
    };
    let sandbox = real_node().await?.context("the cluster has a node")?;
    let settled = Settled::new(&cluster).await?;
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

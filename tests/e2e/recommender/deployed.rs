//! The recommender as these tests deploy it.

use anyhow::Result;
use sandbox::Sandbox;

pub(crate) use e2e::deployed::{Replica, leader, metric, process, recovered, replicas, restarts};

/// Deploys the recommender and waits until all its replicas are ready.
pub(crate) async fn deploy(sandbox: &Sandbox) -> Result<()> {
    e2e::deployed::deploy(sandbox, "tests/e2e/recommender").await
}

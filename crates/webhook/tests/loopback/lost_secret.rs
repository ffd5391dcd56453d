//! The Secret of the certificates is deleted under 500 reviews per second, also while it cannot be
//! written. No review fails.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serving::certificates::RotationPolicy;
use testing::{Pace, eventually};
use webhook::serve::LIMITS;

use crate::api_server::ApiServer;
use crate::fixture::Replica;
use crate::rotation::{bundles, managed, under_load};

const SECRET: &str = "vpa-tls-certs";
/// Three attempts of each replica.
const REFUSED: u32 = 6;

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_secret_is_restored_under_load() -> Result<()> {
    let api_server = ApiServer::default();
    let profile = RotationPolicy {
        tick: Duration::from_millis(100),
        ..RotationPolicy::default()
    };
    let start = || Replica::start(managed(&api_server, profile), &api_server, LIMITS);
    let replicas = vec![start().await?, start().await?];
    let before = api_server.get(SECRET).context("no Secret")?;
    let is_back = async || {
        eventually("it is back", Pace::WITHIN, async || {
            let now = api_server.get(SECRET).context("it is gone")?;
            ensure!(now["data"] == before["data"], "it is another");
            Ok(())
        })
        .await
    };
    let deletions = async {
        api_server.delete(SECRET);
        is_back().await?;
        api_server.refuse(Some("/secrets/"));
        api_server.delete(SECRET);
        eventually("writes are refused", Pace::WITHIN, async || {
            let refused = api_server.refused();
            ensure!(refused >= REFUSED, "{refused} so far");
            Ok(())
        })
        .await?;
        api_server.refuse(None);
        is_back().await
    };
    under_load(replicas, &api_server, false, (1, 1), deletions).await?;
    let bundles = bundles(&api_server)?.len();
    ensure!(bundles == 1, "the registration has changed");
    Ok(())
}

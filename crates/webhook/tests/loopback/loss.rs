//! The Secret with the certificates is deleted while the API server asks 500 times per second, also
//! while it cannot be written again, and not one question fails.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serving::certificates::RotationPolicy;
use testing::{Pace, eventually};
use webhook::serve::LIMITS;

use crate::objects::Objects;
use crate::rotation::{bundles, managed, under_load};
use crate::running::Replica;

const SECRET: &str = "vpa-tls-certs";
/// Three tries of each replica.
const REFUSED: u32 = 6;

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_deleted_under_load_is_put_back() -> Result<()> {
    let objects = Objects::default();
    let profile = RotationPolicy {
        tick: Duration::from_millis(100),
        ..RotationPolicy::default()
    };
    let replicas = vec![
        Replica::start(managed(&objects, profile), &objects, LIMITS).await?,
        Replica::start(managed(&objects, profile), &objects, LIMITS).await?,
    ];
    let before = objects.get(SECRET).context("there is none")?;
    let is_back = async || {
        eventually("it is back", Pace::WITHIN, async || {
            let now = objects.get(SECRET).context("it is gone")?;
            ensure!(now["data"] == before["data"], "it is another");
            Ok(())
        })
        .await
    };
    let deletions = async {
        objects.delete(SECRET);
        is_back().await?;
        objects.refuse(Some("/secrets/"));
        objects.delete(SECRET);
        eventually("writes are refused", Pace::WITHIN, async || {
            ensure!(objects.refused() >= REFUSED, "{} so far", objects.refused());
            Ok(())
        })
        .await?;
        objects.refuse(None);
        is_back().await
    };
    under_load(replicas, &objects, false, (1, 1), deletions).await?;
    ensure!(
        bundles(&objects)?.len() == 1,
        "the API server was told something else meanwhile"
    );
    Ok(())
}

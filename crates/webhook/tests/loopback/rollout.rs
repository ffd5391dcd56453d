//! Replicas with different flags, as in a rollout: the holder of the Lease registers.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use runtime::Leading;
use serving::certificates::RotationPolicy;
use testing::{Pace, eventually};
use tokio::sync::watch;
use webhook::registration::{CONFIGURATION, Registration};
use webhook::serve::LIMITS;

use crate::api_server::ApiServer;
use crate::fixture::{Replica, registration};
use crate::rotation::managed;

type Terms = watch::Sender<Option<Leading>>;

async fn replica(api_server: &ApiServer, timeout_seconds: i32) -> Result<(Replica, Terms)> {
    let profile = RotationPolicy {
        tick: Duration::from_millis(20),
        ..RotationPolicy::default()
    };
    let registration = Registration {
        timeout_seconds,
        ..registration()
    };
    let source = managed(api_server, profile);
    let (terms, term) = watch::channel(None);
    let replica = Replica::start_as(source, api_server, LIMITS, registration, term).await?;
    Ok((replica, terms))
}

fn term() -> Leading {
    Leading::alone(Timestamp::UNIX_EPOCH)
}

async fn timeout_becomes(api_server: &ApiServer, expected: i32) -> Result<()> {
    eventually("the registration changes", Pace::WITHIN, async || {
        let found = api_server.get(CONFIGURATION).context("no configuration")?;
        let found = &found["webhooks"][0]["timeoutSeconds"];
        ensure!(*found == expected, "{found}");
        Ok(())
    })
    .await
}

/// Returns once the replicas have read the registration `count` times.
async fn reads(api_server: &ApiServer, count: u32) -> Result<()> {
    let before = api_server.reads(CONFIGURATION);
    eventually("the registration was read", Pace::WITHIN, async || {
        let found = api_server.reads(CONFIGURATION) - before;
        ensure!(found >= count, "{found} reads");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_holder_of_the_lease_alone_writes_the_registration() -> Result<()> {
    let api_server = ApiServer::default();
    let (_old, old_terms) = replica(&api_server, 10).await?;
    let (mut new, new_terms) = replica(&api_server, 7).await?;
    reads(&api_server, 10).await?;
    assert_eq!(api_server.get(CONFIGURATION), None, "no replica leads");
    assert!(!*new.in_effect.borrow());

    old_terms.send_replace(Some(term()));
    timeout_becomes(&api_server, 10).await?;
    new.in_effect.wait_for(|is| *is).await?;
    reads(&api_server, 20).await?;
    assert_eq!(api_server.versions(CONFIGURATION).len(), 1, "no change");

    old_terms.send_replace(None);
    new_terms.send_replace(Some(term()));
    timeout_becomes(&api_server, 7).await?;
    reads(&api_server, 20).await?;
    assert_eq!(api_server.versions(CONFIGURATION).len(), 2, "one change");

    api_server.delete(CONFIGURATION);
    timeout_becomes(&api_server, 7).await
}

//! Replicas of two revisions of the Deployment with different flags: the newer one registers.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use serving::certificates::RotationPolicy;
use testing::{Pace, eventually};
use webhook::registration::{CONFIGURATION, Registration};
use webhook::serve::LIMITS;

use crate::api_server::ApiServer;
use crate::fixture::{Replica, registration};
use crate::rotation::managed;

/// The `ReplicaSet` of a revision.
fn replica_set(api_server: &ApiServer, name: &str, revision: u32, ready: u32) {
    let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "webhook", "uid": "u-1", "controller": true});
    let annotations = json!({"deployment.kubernetes.io/revision": revision.to_string()});
    let metadata = json!({"name": name, "annotations": annotations, "ownerReferences": [owner]});
    let replica_set =
        json!({"metadata": metadata, "status": {"replicas": 1, "readyReplicas": ready}});
    api_server.put(
        &format!("/apis/apps/v1/namespaces/suite/replicasets/{name}"),
        &replica_set,
    );
}

async fn replica(api_server: &ApiServer, pod: &str, timeout_seconds: i32) -> Result<Replica> {
    let profile = RotationPolicy {
        tick: Duration::from_millis(20),
        ..RotationPolicy::default()
    };
    let registration = Registration {
        timeout_seconds,
        ..registration()
    };
    let source = managed(api_server, profile);
    Replica::start_as(source, api_server, LIMITS, registration, pod).await
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

/// Returns once a replica has found the registration of another revision `count` times.
async fn conflicts(api_server: &ApiServer, replica_set: &str, count: u32) -> Result<()> {
    let before = api_server.reads(replica_set);
    eventually("the registration was compared", Pace::WITHIN, async || {
        let found = api_server.reads(replica_set) - before;
        ensure!(found >= count, "{found} conflicts");
        Ok(())
    })
    .await
}

/// A replica of revision 1, and one of revision 2, which has changed the registration.
async fn two_revisions() -> Result<(ApiServer, [Replica; 2])> {
    let api_server = ApiServer::default();
    replica_set(&api_server, "webhook-a", 1, 1);
    replica_set(&api_server, "webhook-b", 2, 1);
    let old = replica(&api_server, "webhook-a-1", 10).await?;
    timeout_becomes(&api_server, 10).await?;
    let new = replica(&api_server, "webhook-b-1", 7).await?;
    timeout_becomes(&api_server, 7).await?;
    Ok((api_server, [old, new]))
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_two_revisions_write_the_registration_once() -> Result<()> {
    let (api_server, _replicas) = two_revisions().await?;
    conflicts(&api_server, "webhook-a", 10).await?;
    assert_eq!(api_server.versions(CONFIGURATION).len(), 2, "one change");

    // A rollback makes the old revision the newest.
    replica_set(&api_server, "webhook-a", 3, 1);
    timeout_becomes(&api_server, 10).await?;
    conflicts(&api_server, "webhook-b", 10).await?;
    let versions = api_server.versions(CONFIGURATION).len();
    assert_eq!(versions, 3, "one more change");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_revision_loses_the_registration_while_no_replica_is_ready() -> Result<()> {
    let (api_server, [_old, new]) = two_revisions().await?;
    drop(new);
    conflicts(&api_server, "webhook-a", 20).await?;
    timeout_becomes(&api_server, 7).await?;

    replica_set(&api_server, "webhook-b", 2, 0);
    timeout_becomes(&api_server, 10).await?;
    replica_set(&api_server, "webhook-b", 2, 1);
    let _new = replica(&api_server, "webhook-b-2", 7).await?;
    timeout_becomes(&api_server, 7).await?;
    Ok(())
}

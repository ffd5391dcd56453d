//! Replicas of two revisions of the Deployment with different flags: the newer one has its way.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use serving::certificates::RotationPolicy;
use testing::{Pace, eventually};
use webhook::registration::{CONFIGURATION, Registration};
use webhook::serve::LIMITS;

use crate::objects::Objects;
use crate::rotation::managed;
use crate::running::{Replica, registration};

/// The `ReplicaSet` of a revision, with one ready replica.
fn replica_set(objects: &Objects, name: &str, revision: u32) {
    replica_set_with(objects, name, revision, 1);
}

fn replica_set_with(objects: &Objects, name: &str, revision: u32, ready: u32) {
    let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "webhook", "uid": "u-1", "controller": true});
    let annotations = json!({"deployment.kubernetes.io/revision": revision.to_string()});
    let metadata = json!({"name": name, "annotations": annotations, "ownerReferences": [owner]});
    let replica_set =
        json!({"metadata": metadata, "status": {"replicas": 1, "readyReplicas": ready}});
    objects.put(
        &format!("/apis/apps/v1/namespaces/suite/replicasets/{name}"),
        &replica_set,
    );
}

async fn replica(objects: &Objects, pod: &str, timeout_seconds: i32) -> Result<Replica> {
    let profile = RotationPolicy {
        tick: Duration::from_millis(20),
        ..RotationPolicy::default()
    };
    let registration = Registration {
        timeout_seconds,
        ..registration()
    };
    Replica::start_as(
        managed(objects, profile),
        objects,
        LIMITS,
        registration,
        pod,
    )
    .await
}

async fn timeout_becomes(objects: &Objects, expected: i32) -> Result<()> {
    eventually("the registration is the expected one", Pace::WITHIN, async || {
        let found = objects.get(CONFIGURATION).context("there is none")?["webhooks"][0]["timeoutSeconds"].clone();
        ensure!(found == expected, "{found}");
        Ok(())
    })
    .await
}

/// Returns once a replica has found the registration to be another than its own this often.
async fn looks(objects: &Objects, replica_set: &str, looks: u32) -> Result<()> {
    let before = objects.reads(replica_set);
    eventually("it was looked at", Pace::WITHIN, async || {
        let found = objects.reads(replica_set) - before;
        ensure!(found >= looks, "{found} looks");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_two_revisions_change_the_registration_once() -> Result<()> {
    let objects = Objects::default();
    replica_set(&objects, "webhook-a", 1);
    replica_set(&objects, "webhook-b", 2);
    let _old = replica(&objects, "webhook-a-1", 10).await?;
    timeout_becomes(&objects, 10).await?;
    let _new = replica(&objects, "webhook-b-1", 7).await?;
    timeout_becomes(&objects, 7).await?;
    looks(&objects, "webhook-a", 10).await?;
    assert_eq!(objects.versions(CONFIGURATION).len(), 2, "one change");

    // After a rollback the old one is the newest.
    replica_set(&objects, "webhook-a", 3);
    timeout_becomes(&objects, 10).await?;
    looks(&objects, "webhook-b", 10).await?;
    assert_eq!(objects.versions(CONFIGURATION).len(), 3, "one more change");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_revision_without_ready_replicas_loses_the_registration_until_it_is_back()
-> Result<()> {
    let objects = Objects::default();
    replica_set(&objects, "webhook-a", 1);
    replica_set(&objects, "webhook-b", 2);
    let _old = replica(&objects, "webhook-a-1", 10).await?;
    timeout_becomes(&objects, 10).await?;
    let new = replica(&objects, "webhook-b-1", 7).await?;
    timeout_becomes(&objects, 7).await?;
    drop(new);
    looks(&objects, "webhook-a", 20).await?;
    timeout_becomes(&objects, 7).await?;

    replica_set_with(&objects, "webhook-b", 2, 0);
    timeout_becomes(&objects, 10).await?;
    replica_set(&objects, "webhook-b", 2);
    let _new = replica(&objects, "webhook-b-2", 7).await?;
    timeout_becomes(&objects, 7).await?;
    Ok(())
}

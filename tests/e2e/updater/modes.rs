//! Pods in each update mode.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use e2e::AvailabilityWatch;
use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::json;

use super::fixture::{BOUNDS, Fixture};

const REPLICAS: usize = 3;
/// Half of three may be away, rounded down.
const AT_LEAST: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modes_that_recreate_do_so_within_the_budgets_and_others_leave_pods_alone() -> Result<()> {
    let fixture = Fixture::together("modes").await?;
    let heart = fixture.heart();
    let none = json!({});
    let workloads = "off initial recreate auto absent protected half few scaled";
    let workloads: Vec<&str> = workloads.split(' ').collect();
    for workload in &workloads {
        fixture.workload(workload, REPLICAS, &none).await?;
    }
    let [scaled, owners] = fixture.scaled("scaled", REPLICAS).await?;
    let owned = json!({"metadata": {"ownerReferences": owners}});
    fixture.patch::<ReplicaSet>("scaled", owned).await?;
    fixture.protect("protected", REPLICAS).await?;
    fixture.protect("half", REPLICAS - 1).await?;
    let mut before = BTreeMap::new();
    for workload in &workloads {
        before.insert(*workload, fixture.uids(workload).await?);
    }
    let watching = AvailabilityWatch::of(fixture.typed()).await?;
    for (workload, mode) in [
        ("off", "Off"),
        ("initial", "Initial"),
        ("recreate", "Recreate"),
        ("auto", "Auto"),
        ("protected", "Recreate"),
        ("half", "Recreate"),
    ] {
        fixture.autoscale(workload, mode).await?;
    }
    let few = json!({"updateMode": "Recreate", "minReplicas": REPLICAS + 1});
    for (workload, policy) in [("few", few), ("absent", json!({}))] {
        fixture.autoscale_with(workload, &policy).await?;
    }
    let spec = json!({"targetRef": scaled, "updatePolicy": {"updateMode": "Recreate"}});
    fixture.autoscale_as("scaled", &none, spec, BOUNDS).await?;

    for workload in ["recreate", "auto", "absent", "half", "scaled"] {
        let uids = fixture.all_large(workload, REPLICAS).await?;
        ensure!(
            uids.iter().all(|uid| !before[workload].contains(uid)),
            "{workload}: they are new pods"
        );
        let fewest = watching.fewest(workload, &uids).await?;
        ensure!(fewest >= AT_LEAST, "{workload}: {fewest} were left");
    }
    for workload in ["off", "initial", "protected", "few"] {
        let is_same = fixture.uids(workload).await? == before[workload];
        ensure!(is_same, "{workload}: its pods are as they were");
    }
    let held = "vpa_updater_skipped_pods{reason=\"disruption_budget\"} 3";
    fixture.serves(&[held]).await?;
    // Upstream's events, with the change and its cause.
    let evicted = "Pod was evicted by VPA Updater to apply resource recommendation. \
                   app cpu request 100m -> 250m: below lower bound 200m.";
    let updater = "vpa-updater";
    fixture
        .reported(
            "REASON:.reason,KIND:.involvedObject.kind,SOURCE:.reportingComponent,MESSAGE:.message",
            &[
                &["EvictedByVPA", "Pod", updater, evicted],
                &[
                    "EvictedPod",
                    "VerticalPodAutoscaler",
                    updater,
                    "VPA Updater evicted Pod recreate-",
                ],
            ],
        )
        .await?;
    heart.stop().await
}

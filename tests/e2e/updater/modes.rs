//! Pods that are updated: by update mode, in one direction only (`evictionRequirements`), and in
//! maintenance windows of VPA objects and of their namespace.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{AvailabilityWatch, Namespace, closed_window};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1;
use serde_json::{Value, json};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_evicted_only_if_all_requirements_are_met() -> Result<()> {
    let fixture = Fixture::together("requirements").await?;
    let heart = fixture.heart();
    let higher = json!({"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"});
    let lower = json!({"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"});
    // A container without a request of memory would be updated in any case.
    let (none, memory) = (json!({}), json!({"memory": "100Mi"}));
    for workload in ["grows", "shrinks", "neither"] {
        fixture
            .workload_with(workload, REPLICAS, &none, &memory)
            .await?;
    }
    let held = [
        fixture.uids("shrinks").await?,
        fixture.uids("neither").await?,
    ];
    for (workload, requirements) in [
        ("shrinks", json!([lower])),
        ("neither", json!([higher, lower])),
        ("grows", json!([higher])),
    ] {
        let policy = json!({"updateMode": "Recreate", "evictionRequirements": requirements});
        fixture.autoscale_with(workload, &policy).await?;
    }
    fixture.all_large("grows", REPLICAS).await?;
    fixture
        .serves(&["vpa_updater_skipped_pods{reason=\"requirements\"} 6"])
        .await?;
    let now = [
        fixture.uids("shrinks").await?,
        fixture.uids("neither").await?,
    ];
    ensure!(now == held, "their pods are the same: {now:?}");

    let without = json!({"spec": {"updatePolicy": {"evictionRequirements": null}}});
    fixture.patch::<Vpa>("shrinks", without).await?;
    fixture.all_large("shrinks", REPLICAS).await?;
    ensure!(
        fixture.uids("neither").await? == held[1],
        "its pods are the same"
    );
    heart.stop().await
}

const ANNOTATION: &str = "plimsoll.dev/maintenance-window";
/// It opens each minute for an hour.
const OPEN: &str = "* * * * *; for=1h";

fn annotated(window: &Value) -> Value {
    json!({"metadata": {"annotations": {ANNOTATION: window}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_evicted_only_while_the_window_of_their_object_or_namespace_is_open() -> Result<()>
{
    let fixture = Fixture::together("windows").await?;
    let heart = fixture.heart();
    let (closed, none) = (closed_window()?, json!({}));
    let cluster = Namespace::cluster(fixture.client.clone());
    let namespace = fixture.namespace.clone();
    cluster
        .patch::<v1::Namespace>(&namespace, annotated(&json!(closed)))
        .await?;
    let held = ["closed", "inherits", "unreadable"];
    let mut before = BTreeMap::new();
    for workload in held.into_iter().chain(["open"]) {
        fixture.workload(workload, REPLICAS, &none).await?;
        before.insert(workload, fixture.uids(workload).await?);
    }
    for (workload, annotations) in [
        ("closed", json!({ANNOTATION: closed})),
        ("inherits", none),
        ("unreadable", json!({ANNOTATION: "at night"})),
        ("open", json!({ANNOTATION: OPEN})),
    ] {
        let spec = json!({"updatePolicy": {"updateMode": "Recreate"}});
        fixture
            .autoscale_as(workload, &annotations, spec, BOUNDS)
            .await?;
    }
    fixture.all_large("open", REPLICAS).await?;
    let paused = [
        "vpa_updater_paused_vpas{reason=\"outside_window\"} 2",
        "vpa_updater_paused_vpas{reason=\"unreadable_window\"} 1",
    ];
    fixture.serves(&paused).await?;
    for workload in held {
        let now = fixture.uids(workload).await?;
        ensure!(now == before[workload], "{workload}: its pods are the same");
    }

    fixture
        .patch::<Vpa>("unreadable", annotated(&json!(OPEN)))
        .await?;
    cluster
        .patch::<v1::Namespace>(&namespace, annotated(&json!(null)))
        .await?;
    for workload in ["unreadable", "inherits"] {
        fixture.all_large(workload, REPLICAS).await?;
    }
    let now = fixture.uids("closed").await?;
    ensure!(now == before["closed"], "its pods are the same");
    fixture
        .patch::<Vpa>("closed", annotated(&json!(null)))
        .await?;
    fixture.all_large("closed", REPLICAS).await?;
    heart.stop().await
}

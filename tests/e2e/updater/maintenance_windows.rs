//! Maintenance windows of VPA objects and of their namespace.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{Namespace, closed_window};
use k8s_openapi::api::core::v1;
use serde_json::{Value, json};

use super::fixture::{BOUNDS, Fixture};

const REPLICAS: usize = 3;
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

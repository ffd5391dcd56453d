//! `evictionRequirements`: pods that are updated in one direction only.

use anyhow::{Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use serde_json::json;

use super::fixture::Fixture;

const REPLICAS: usize = 3;

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

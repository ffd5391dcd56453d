//! Pods in each update mode.

use anyhow::{Result, ensure};
use e2e::deployed::scrape;
use e2e::{Watching, eventually, kubectl_in};
use serde_json::json;

use super::fixture::{Fixture, PATIENCE};

const REPLICAS: usize = 3;
/// Half of three may be away, rounded down.
const AT_LEAST: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modes_that_recreate_do_so_within_the_budgets_and_others_leave_pods_alone() -> Result<()> {
    let fixture = Fixture::take("modes").await?;
    let heart = fixture.heart();
    let none = json!({});
    let workloads = [
        "off",
        "initial",
        "recreate",
        "auto",
        "absent",
        "protected",
        "half",
        "few",
    ];
    for workload in workloads {
        fixture.workload(workload, REPLICAS, &none).await?;
    }
    fixture.protect("protected", REPLICAS).await?;
    fixture.protect("half", REPLICAS - 1).await?;
    let mut before = std::collections::BTreeMap::new();
    for workload in workloads {
        let uids: Vec<String> = fixture
            .sizes(workload)
            .await?
            .into_iter()
            .map(|(uid, _)| uid)
            .collect();
        before.insert(workload, uids);
    }
    let watching = Watching::of(fixture.pods.clone()).await?;
    for (workload, mode) in [
        ("off", "Off"),
        ("initial", "Initial"),
        ("recreate", "Recreate"),
        ("auto", "Auto"),
        ("protected", "Recreate"),
        ("half", "Recreate"),
    ] {
        fixture
            .autoscale(workload, &json!({"updateMode": mode}))
            .await?;
    }
    fixture
        .autoscale(
            "few",
            &json!({"updateMode": "Recreate", "minReplicas": REPLICAS + 1}),
        )
        .await?;
    fixture.autoscale("absent", &json!({})).await?;

    for workload in ["recreate", "auto", "absent", "half"] {
        let uids = fixture.all_large(workload, REPLICAS).await?;
        ensure!(
            uids.iter().all(|uid| !before[workload].contains(uid)),
            "{workload}: they are new pods"
        );
        let fewest = watching.fewest(workload, &uids).await?;
        ensure!(fewest >= AT_LEAST, "{workload}: {fewest} were left");
    }
    for workload in ["off", "initial", "protected", "few"] {
        let mut uids: Vec<String> = fixture
            .sizes(workload)
            .await?
            .into_iter()
            .map(|(uid, _)| uid)
            .collect();
        uids.sort();
        before.get_mut(workload).expect("it was looked at").sort();
        ensure!(
            uids == before[workload],
            "{workload}: its pods are as they were"
        );
    }
    let reasons = "vpa_updater_skipped_pods{reason=\"disruption_budget\"} 3";
    eventually(
        "the budget is said to hold the pods",
        PATIENCE,
        async || {
            let metrics = scrape(&fixture.leader().await?).await?;
            ensure!(metrics.contains(reasons), "{metrics}");
            Ok(())
        },
    )
    .await?;
    reported(&fixture).await?;
    heart.stop().await
}

/// Upstream's events.
async fn reported(fixture: &Fixture) -> Result<()> {
    eventually("events tell of it", PATIENCE, async || {
        let columns =
            "custom-columns=REASON:.reason,KIND:.involvedObject.kind,SOURCE:.reportingComponent,MESSAGE:.message";
        let printed =
            kubectl_in(fixture.sandbox()?, &["-n", &fixture.namespace, "get", "events", "-o", columns, "--no-headers"])
                .await?;
        let has = |words: &[&str]| {
            printed.lines().any(|line| words.iter().all(|word| line.contains(word)) && line.contains("vpa-updater"))
        };
        for words in [
            &["EvictedByVPA", "Pod", "Pod was evicted by VPA Updater to apply resource recommendation."][..],
            &["EvictedPod", "VerticalPodAutoscaler", "VPA Updater evicted Pod recreate-"],
        ] {
            ensure!(has(words), "{words:?} is not in\n{printed}");
        }
        Ok(())
    })
    .await
}

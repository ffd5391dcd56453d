//! Waves of a policy through workloads that run.

use std::ops::Range;
use std::time::Instant;

use anyhow::{Result, ensure};
use api::sizing_policy::SizingPolicy;
use e2e::message_of;
use serde_json::json;

use super::fixture::{Fixture, all_hold, or_skip, pod_of, resources, run_on, runs};

/// Workloads of the policy. Fewer would be updated at once.
const WORKLOADS: Range<usize> = 10..20;
/// The first workload of the policy, and its number of pods. The others have one each.
const FIRST: &str = "web-10";
const REPLICAS: usize = 4;

#[tokio::test]
async fn a_policy_whose_sizes_kill_stops_at_its_first_workload() -> Result<()> {
    let cluster = or_skip!(Fixture::measured("policy"));
    let pod = pod_of(
        &["--memory-mib=60"],
        &resources(["10m", "60Mi"], ["20m", "80Mi"]),
    );
    let replicas = |number| {
        if number == WORKLOADS.start {
            REPLICAS
        } else {
            1
        }
    };
    let workloads = WORKLOADS.map(|number| (format!("web-{number}"), replicas(number)));
    let workloads: Vec<_> = workloads.collect();
    for (name, replicas) in &workloads {
        cluster.create_deployment(name, *replicas, &pod).await?;
    }
    let mut before = Vec::new();
    for (name, replicas) in &workloads {
        cluster.all_available(name, *replicas).await?;
        all_hold(&cluster, name, 60).await?;
        before.push(runs(&cluster, name).await?);
    }
    // Half the memory that the program holds, and limits in proportion.
    let policy = json!({
        "updateMode": "Recreate",
        "minReplicas": 1,
        "resourcePolicy": {"containerPolicies": [{
            "containerName": "*",
            "controlledResources": ["memory"],
            "maxAllowed": {"memory": "30Mi"},
        }]},
    });
    cluster.make::<SizingPolicy>("web", policy).await?;
    let began = Instant::now();
    let policy = cluster
        .when::<SizingPolicy>("web", "its first workload is rolled back", |policy| {
            message_of(&policy["status"], "Ready").ends_with("was rolled back")
        })
        .await?;
    eprintln!("stopped after {:?}", began.elapsed());
    let message = message_of(&policy["status"], "Ready");
    let expected = format!(
        "1 of 10 workloads updated, 9 waiting: the recommendation of VerticalPodAutoscaler \
         {}/plimsoll-deployment-{FIRST} was rolled back",
        cluster.namespace
    );
    ensure!(message == expected, "{message}");
    // The first pod of it has the new requests, and `maxAllowed` holds for the former ones too.
    let now = runs(&cluster, FIRST).await?;
    let kept = now.iter().filter(|run| before[0].contains(run)).count();
    ensure!(kept == REPLICAS - 1, "{:?} {now:?}", before[0]);
    for ((name, _), before) in workloads.iter().zip(&before).skip(1) {
        run_on(&cluster, name, before).await?;
    }
    Ok(())
}

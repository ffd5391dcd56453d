//! Pods that are resized where they run, and what becomes of those whose node is too small.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use e2e::{Watching, eventually, kubectl_in};
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::json;

use super::fixture::{Fixture, LARGE, PATIENCE, SMALL};

const REPLICAS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_resized_in_place_and_replaced_only_where_the_mode_allows_it() -> Result<()> {
    let fixture = Fixture::take("in-place").await?;
    let heart = fixture.heart();
    let too_small = json!({"sandbox.plimsoll.dev/resize": "Infeasible"});
    let workloads = [
        ("either", "InPlaceOrRecreate", json!({})),
        ("only", "InPlace", json!({})),
        ("small-node", "InPlaceOrRecreate", too_small.clone()),
        ("stays", "InPlace", too_small),
    ];
    let mut before = BTreeMap::new();
    for (workload, _, annotations) in &workloads {
        fixture.workload(workload, REPLICAS, annotations).await?;
        before.insert(*workload, uids(&fixture, workload).await?);
    }
    let watching = Watching::of(fixture.pods.clone()).await?;
    for (workload, mode, _) in &workloads {
        fixture
            .autoscale(workload, &json!({"updateMode": mode}))
            .await?;
    }
    for workload in ["either", "only"] {
        let live = fixture.all_large(workload, REPLICAS).await?;
        ensure!(
            uids(&fixture, workload).await? == before[workload],
            "{workload}: they are the same pods"
        );
        let fewest = watching.fewest(workload, &live).await?;
        ensure!(
            fewest == REPLICAS,
            "{workload}: only {fewest} of them served at a time"
        );
        for pod in fixture
            .pods
            .list(&ListParams::default().labels(&format!("app={workload}")))
            .await?
        {
            ensure!(
                pod.annotations()
                    .get("vpaInPlaceUpdated")
                    .is_some_and(|value| value == "true"),
                "{}",
                pod.name_any()
            );
        }
    }
    let renewed = eventually(
        "the pods on small nodes are replaced",
        PATIENCE,
        async || {
            let now = uids(&fixture, "small-node").await?;
            ensure!(
                now.iter().all(|uid| !before["small-node"].contains(uid)),
                "some are the old ones"
            );
            ensure!(now.len() == REPLICAS, "{} are there", now.len());
            Ok(now)
        },
    )
    .await?;
    let fewest = watching.fewest("small-node", &renewed).await?;
    ensure!(fewest >= REPLICAS - 1, "{fewest} were left");
    eventually("the others were asked to grow", PATIENCE, async || {
        let list = fixture
            .pods
            .list(&ListParams::default().labels("app=stays"))
            .await?;
        let wanted = list.iter().filter_map(|pod| {
            pod.spec
                .as_ref()?
                .containers
                .first()?
                .resources
                .as_ref()?
                .requests
                .as_ref()
        });
        let large = wanted
            .filter(|requests| requests.get("cpu").is_some_and(|cpu| cpu.0 == LARGE))
            .count();
        ensure!(large > 0, "none of {} was", list.items.len());
        Ok(())
    })
    .await?;
    ensure!(
        uids(&fixture, "stays").await? == before["stays"],
        "they are the same pods"
    );
    ensure!(
        fixture
            .sizes("stays")
            .await?
            .iter()
            .all(|(_, cpu)| cpu == SMALL),
        "they have the size that they had"
    );
    reported(&fixture).await?;
    heart.stop().await
}

async fn uids(fixture: &Fixture, workload: &str) -> Result<Vec<String>> {
    let mut uids: Vec<String> = fixture
        .sizes(workload)
        .await?
        .into_iter()
        .map(|(uid, _)| uid)
        .collect();
    uids.sort();
    Ok(uids)
}

/// Upstream's event.
async fn reported(fixture: &Fixture) -> Result<()> {
    eventually("events tell of it", PATIENCE, async || {
        let columns = "custom-columns=REASON:.reason,SOURCE:.reportingComponent,MESSAGE:.message";
        let printed = kubectl_in(
            fixture.sandbox()?,
            &[
                "-n",
                &fixture.namespace,
                "get",
                "events",
                "-o",
                columns,
                "--no-headers",
            ],
        )
        .await?;
        let line = printed
            .lines()
            .find(|line| line.contains("InPlaceResizedByVPA"))
            .context(printed.clone())?;
        ensure!(
            line.contains("vpa-updater")
                && line.contains("Pod was resized in place by VPA Updater."),
            "{line}"
        );
        Ok(())
    })
    .await
}

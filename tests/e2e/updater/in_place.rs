//! In-place resizes, and pods whose node is too small.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use e2e::{AvailabilityWatch, eventually};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use super::fixture::{BOUNDS, Fixture, LARGE, SMALL};

const REPLICAS: usize = 3;
/// The limit by the mode `request-plus:20%`.
const LIMIT: &str = "300m";
const LIMITS: &str = "app: cpu=300m";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_resized_in_place_and_replaced_only_where_the_mode_allows_it() -> Result<()> {
    let fixture = Fixture::together("in-place").await?;
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
        before.insert(*workload, fixture.uids(workload).await?);
    }
    let watching = AvailabilityWatch::of(fixture.typed()).await?;
    for (workload, mode, _) in &workloads {
        let annotations = match *workload {
            "either" => json!({"plimsoll.dev/limit-mode": "cpu=request-plus:20%"}),
            _ => json!({}),
        };
        let spec = json!({"updatePolicy": {"updateMode": mode}});
        fixture
            .autoscale_as(workload, &annotations, spec, BOUNDS)
            .await?;
    }
    for workload in ["either", "only"] {
        let live = fixture.all_large(workload, REPLICAS).await?;
        ensure!(
            fixture.uids(workload).await? == before[workload],
            "{workload}: they are the same pods"
        );
        let fewest = watching.fewest(workload, &live).await?;
        ensure!(
            fewest == REPLICAS,
            "{workload}: only {fewest} of them served at a time"
        );
        // The annotations follow the resize in a request of their own.
        eventually("the pods have the annotations of a resize", async || {
            for pod in fixture.pods_of(workload).await? {
                let updated = pod.annotations().get("vpaInPlaceUpdated");
                let is_updated = updated.is_some_and(|value| value == "true");
                ensure!(is_updated, "{}", pod.name_any());
                let limits = pod.annotations().get("plimsoll.dev/limits");
                let of_mode = (workload == "either").then_some(LIMITS);
                ensure!(limits.map(String::as_str) == of_mode, "{limits:?}");
            }
            Ok(())
        })
        .await?;
    }
    for pod in fixture.pods_of("either").await? {
        let limit = &json!(pod)["spec"]["containers"][0]["resources"]["limits"]["cpu"];
        ensure!(*limit == LIMIT, "{limit} of {}", pod.name_any());
    }
    let renewed = eventually("the pods on small nodes are replaced", async || {
        let now = fixture.uids("small-node").await?;
        ensure!(
            now.iter().all(|uid| !before["small-node"].contains(uid)),
            "some are the old ones"
        );
        ensure!(now.len() == REPLICAS, "{} are there", now.len());
        Ok(now)
    })
    .await?;
    let fewest = watching.fewest("small-node", &renewed).await?;
    ensure!(fewest >= REPLICAS - 1, "{fewest} were left");
    eventually("the others were asked to grow", async || {
        let pods = fixture.list::<Pod>().await?.into_iter();
        let own = pods.filter(|pod| pod["metadata"]["labels"]["app"] == "stays");
        let requests =
            own.map(|mut pod| pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].take());
        let large = requests.filter(|cpu| cpu == LARGE).count();
        ensure!(large > 0, "none was");
        Ok(())
    })
    .await?;
    ensure!(
        fixture.uids("stays").await? == before["stays"],
        "they are the same pods"
    );
    let small = fixture.count("stays", SMALL).await?;
    ensure!(small == REPLICAS, "they have the size that they had");
    // Upstream's event, with the change and its cause.
    let message = "Pod was resized in place by VPA Updater. \
                   app cpu request 100m -> 250m: below lower bound 200m.";
    fixture
        .reported(
            "REASON:.reason,SOURCE:.reportingComponent,MESSAGE:.message",
            &[&["InPlaceResizedByVPA", "vpa-updater", message]],
        )
        .await?;
    heart.stop().await
}

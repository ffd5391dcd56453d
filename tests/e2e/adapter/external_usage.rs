//! A recommender that reads usage from external metrics, which the adapter has from Prometheus, with
//! the RBAC that the documentation names.

use anyhow::{Context as _, Result};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::SYSTEM;
use e2e::process::{account_file, command};
use e2e::remote_write::Receiver;
use e2e::{apply, eventually, free_address, requests, target, usage};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::json;
use tokio::process::Child;

use super::fixture::Fixture;

const STEP: usize = 10;
const CORES: f64 = 0.35;
const BYTES: f64 = 450.0 * 1_048_576.0;
/// 350m lies in the bucket of CPU that ends at 357m, and a margin of 15 % makes that 410m. 450Mi lies
/// in the bucket of memory that ends at 477270988 bytes, and the margin makes that 548861636.
const TARGET: (&str, &str) = ("410m", "548861636");

#[tokio::test]
async fn usage_comes_from_external_metrics() -> Result<()> {
    let fixture = Fixture::together("external").await?;
    // The metrics API has another usage.
    let (requests, usage) = (requests("100m", "100Mi"), usage("2", "2Gi"));
    fixture.deploy("web", 1, &requests, &usage).await?;
    let pod = eventually("the pod is there", async || {
        let pods = fixture.pods_of("web").await?;
        Ok(pods.first().context("no pod")?.name_any())
    })
    .await?;
    write(&fixture, &pod).await?;
    let _recommender = recommender(&fixture).await?;
    let spec = json!({"targetRef": target("Deployment", "web")});
    fixture.make::<Vpa>("web", spec).await?;
    let target = json!({"cpu": TARGET.0, "memory": TARGET.1});
    let container = json!({"containerName": "app", "target": target});
    let status = json!({"recommendation": {"containerRecommendations": [container]}});
    fixture
        .await_fields::<Vpa>("web", json!({"status": status}))
        .await
        .map(drop)
}

/// Writes usage of the pod and of one that is gone, from some minutes ago to some minutes ahead.
async fn write(fixture: &Fixture, pod: &str) -> Result<()> {
    let receiver = Receiver::of(&fixture.sandbox)?;
    let now = Timestamp::now().as_second();
    for (pod, factor) in [(pod, 1.0), ("web-gone", 4.0)] {
        for (name, value) in [
            ("container_cpu_cores", CORES),
            ("container_memory_bytes", BYTES),
        ] {
            let labels = [
                ("app", "web"),
                ("container", "app"),
                ("namespace", fixture.namespace.as_str()),
                ("pod", pod),
            ];
            let seconds = (now - 240..now + 540).step_by(STEP);
            let samples = seconds.map(|second| (second, factor * value));
            receiver.write(name, &labels, samples).await?;
        }
    }
    Ok(())
}

/// Starts a recommender of this namespace as its service account.
async fn recommender(fixture: &Fixture) -> Result<Child> {
    let sandbox = &fixture.sandbox;
    for file in [
        "deploy/base/recommender/service-account.yaml",
        "deploy/base/recommender/rbac.yaml",
        "tests/e2e/adapter/external_usage.yaml",
    ] {
        apply(sandbox, file).await?;
    }
    let kubeconfig = account_file(sandbox, SYSTEM, "plimsoll-recommender").await?;
    let log = sandbox.logs_dir().join("recommender-external.log");
    command("recommender", &kubeconfig, &log)?
        .arg(format!("--address={}", free_address()?))
        .arg(format!("--vpa-object-namespace={}", fixture.namespace))
        .args(["--leader-elect=false", "--recommender-interval=1s"])
        .args(["--use-external-metrics", "--container-name-label=container"])
        .arg("--external-metrics-cpu-metric=container_cpu_cores")
        .arg("--external-metrics-memory-metric=container_memory_bytes")
        .spawn()
        .context("start a recommender")
}

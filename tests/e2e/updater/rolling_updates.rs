//! Rolling updates of Deployments in place of evictions. A `LimitRange` sizes new pods.

use anyhow::{Result, ensure};
use e2e::{AvailabilityWatch, dry_run, eventually, target};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{LimitRange, Pod};
use kube::api::PostParams;
use serde_json::{Value, json};

use super::fixture::{BOUNDS, Fixture, LARGE, SMALL};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_replica_gets_its_size_with_one_ready_pod_throughout() -> Result<()> {
    let fixture = Fixture::together("rolling").await?;
    let heart = fixture.heart();
    fixture.create::<LimitRange>(defaults(SMALL)).await?;
    for name in ["single", "paused", "stuck"] {
        deploy(&fixture, name).await?;
    }
    let pause = json!({"spec": {"paused": true}});
    fixture.patch::<Deployment>("paused", pause).await?;
    let nowhere = json!({"spec": {"nodeSelector": {"no": "node"}}});
    let change = json!({"spec": {"template": nowhere}});
    fixture.patch::<Deployment>("stuck", change).await?;
    fixture
        .when::<Deployment>("stuck", "its new pod waits", |it| {
            it["status"]["replicas"] == 2 && it["status"]["updatedReplicas"] == 1
        })
        .await?;
    let (paused, stuck) = (fixture.uids("paused").await?, fixture.uids("stuck").await?);
    let before = fixture.uids("single").await?;
    grow(&fixture).await?;

    let watching = AvailabilityWatch::of(fixture.typed()).await?;
    for name in ["single", "paused", "stuck"] {
        let annotations = json!({"plimsoll.dev/replacement": "RollingUpdate"});
        let target = target("Deployment", name);
        let spec = json!({"targetRef": target, "updatePolicy": {"updateMode": "Recreate"}});
        fixture
            .autoscale_as(name, &annotations, spec, BOUNDS)
            .await?;
    }
    fixture.moved(&watching, "single", 1, 1).await?;
    ensure!(fixture.uids("single").await? != before, "it is a new pod");
    ensure!(revision(&fixture, "single").await? == "2", "one rollout");
    let begun = "app cpu request 100m -> 250m: below lower bound 200m";
    fixture
        .reported(
            "REASON:.reason,KIND:.involvedObject.kind,NAME:.involvedObject.name,MESSAGE:.message",
            &[
                &["RollingUpdateBegun", "Deployment", "single", begun],
                &[
                    "RollingUpdateBegun",
                    "VerticalPodAutoscaler",
                    "single",
                    begun,
                ],
                &[
                    "RollingUpdateRefused",
                    "VerticalPodAutoscaler",
                    "paused",
                    "it is paused",
                ],
                &["RollingUpdateRefused", "stuck", "a rollout is in progress"],
            ],
        )
        .await?;
    ensure!(fixture.uids("paused").await? == paused, "it is left alone");
    ensure!(fixture.uids("stuck").await? == stuck, "it is left alone");
    ensure!(revision(&fixture, "stuck").await? == "2", "no rollout");

    let resume = json!({"spec": {"paused": false}});
    fixture.patch::<Deployment>("paused", resume).await?;
    fixture.moved(&watching, "paused", 1, 1).await?;
    heart.stop().await
}

/// A Deployment of one replica whose pod is sized by the `LimitRange`; waits until it is ready.
async fn deploy(fixture: &Fixture, name: &str) -> Result<()> {
    let object = e2e::workload(name, 1, &json!({}), &json!({}));
    fixture.create::<Deployment>(object).await?;
    fixture
        .when::<Deployment>(name, "its pod is available", |it| {
            it["status"]["availableReplicas"] == 1
        })
        .await?;
    let small = fixture.count(name, SMALL).await?;
    ensure!(small == 1, "{name} is small");
    Ok(())
}

fn defaults(cpu: &str) -> Value {
    let limit = json!({"type": "Container", "defaultRequest": {"cpu": cpu}});
    json!({"metadata": {"name": "defaults"}, "spec": {"limits": [limit]}})
}

/// Makes new pods large.
async fn grow(fixture: &Fixture) -> Result<()> {
    let spec = &defaults(LARGE)["spec"];
    let change = json!({"spec": spec});
    fixture.patch::<LimitRange>("defaults", change).await?;
    let container = json!({"name": "app", "image": "registry.example.com/app"});
    let pod = json!({"metadata": {"name": "sample"}, "spec": {"containers": [container]}});
    let pod: Pod = serde_json::from_value(pod)?;
    let params: PostParams = dry_run();
    eventually("new pods are large", async || {
        let made = fixture.typed::<Pod>().create(&params, &pod).await?;
        let made = serde_json::to_value(made)?;
        let cpu = &made["spec"]["containers"][0]["resources"]["requests"]["cpu"];
        ensure!(cpu == LARGE, "{cpu}");
        Ok(())
    })
    .await
}

/// The number of the last rollout.
async fn revision(fixture: &Fixture, name: &str) -> Result<String> {
    let deployment = fixture.typed::<Deployment>().get(name).await?;
    let annotations = deployment.metadata.annotations.unwrap_or_default();
    let revision = annotations.get("deployment.kubernetes.io/revision");
    Ok(revision.cloned().unwrap_or_default())
}

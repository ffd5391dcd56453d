//! A `CronJob` whose history counts in runs: parallel pods, their ends, and an OOM kill in a run that
//! was never measured.

use anyhow::{Context as _, Result};
use api::checkpoint::{SIZING_HISTORY, VerticalPodAutoscalerCheckpoint as Checkpoint};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{eventually, kubectl, requests, target, usage, with};
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::Pod;
use model::Quantity;
use serde_json::{Value, json};

use super::fixture::{Fixture, first_container};

/// A Job's pod runs until this annotation is removed.
const KEEP_RUNNING: &str = "sandbox.plimsoll.dev/keep-running";

/// A `CronJob` of two parallel pods at a time, and its VPA object.
async fn create(fixture: &Fixture) -> Result<()> {
    let annotations = with(usage("240m", "300Mi"), json!({KEEP_RUNNING: "true"}));
    let container = json!({
        "name": "app", "image": "registry.example.com/app", "resources": requests("100m", "1000Mi"),
    });
    let template = json!({
        "metadata": {"labels": {"app": "nightly"}, "annotations": annotations},
        "spec": {"containers": [container], "restartPolicy": "OnFailure"},
    });
    let job = json!({"parallelism": 2, "completions": 2, "template": template});
    let spec = json!({"schedule": "0 3 * * 0", "suspend": true, "jobTemplate": {"spec": job}});
    fixture.make::<CronJob>("nightly", spec).await?;
    let annotations = json!({"plimsoll.dev/sizing-policy": "plimsoll"});
    let mut cron_job = target("CronJob", "nightly");
    cron_job["apiVersion"] = "batch/v1".into();
    let spec = json!({"targetRef": cron_job, "recommenders": [{"name": "e2e"}]});
    fixture
        .make_annotated::<Vpa>("nightly", &annotations, spec)
        .await?;
    Ok(())
}

async fn start(fixture: &Fixture, job: &str) -> Result<()> {
    let namespace = &fixture.namespace;
    let command = format!("create job {job} --from=cronjob/nightly --namespace {namespace}");
    kubectl(&command).await?;
    Ok(())
}

/// CPU in cores and memory in MiB.
fn amounts(object: &Value) -> Option<(f64, f64)> {
    let amount = |resource: &str| {
        let text = first_container(object)["target"][resource].as_str()?;
        Some(text.parse::<Quantity>().ok()?.to_f64())
    };
    Some((amount("cpu")?, amount("memory")? / 1_048_576.0))
}

/// The runs in the stored history: whether each has ended.
fn runs(checkpoint: &Value) -> Option<Vec<bool>> {
    let text = checkpoint["metadata"]["annotations"][SIZING_HISTORY].as_str()?;
    let stored: Value = serde_json::from_str(text).ok()?;
    let recent = stored["history"]["history"]["runs"]["recent"].as_object()?;
    let ended = recent.values().map(|run| run["has_ended"].as_bool());
    ended.collect()
}

#[tokio::test]
async fn a_cron_job_is_sized_by_its_runs() -> Result<()> {
    let fixture = super::fixture("jobs").await?;
    create(&fixture).await?;
    start(&fixture, "first").await?;
    let is_sized = |object: &Value| {
        amounts(object).is_some_and(|(cpu, memory)| {
            (0.24..0.5).contains(&cpu) && (300.0..600.0).contains(&memory)
        })
    };
    fixture
        .when::<Vpa>("nightly", "its pods are measured", is_sized)
        .await?;
    // metrics-server may know one pod before the other.
    let have_ended = |expected| move |it: &Value| runs(it) == Some(vec![expected; 2]);
    fixture
        .when::<Checkpoint>("nightly-app", "both pods are measured", have_ended(false))
        .await?;

    let end = json!({KEEP_RUNNING: null});
    fixture.annotate_pods("nightly", &end).await?;
    fixture
        .when::<Checkpoint>("nightly-app", "both runs have ended", have_ended(true))
        .await?;

    // These pods are new, so metrics-server does not know them yet.
    start(&fixture, "second").await?;
    let second = eventually("a pod of the second Job is there", async || {
        let pods = fixture.pods_of("nightly").await?;
        let mut names = pods.into_iter().filter_map(|pod| pod.metadata.name);
        let name = names.find(|name| name.starts_with("second"));
        name.context("only pods of the first Job")
    })
    .await?;
    let kill = json!({"sandbox.plimsoll.dev/oom-kills": "1"});
    fixture.annotate::<Pod>(&second, kill).await?;
    let raised = fixture
        .when::<Vpa>("nightly", "the OOM kill counts", |object| {
            amounts(object).is_some_and(|(_, memory)| (1200.0..1300.0).contains(&memory))
        })
        .await?;
    // The CPU of the first runs counts on.
    let (cpu, _) = amounts(&raised).context("a target")?;
    assert!((0.24..0.5).contains(&cpu), "{raised}");
    Ok(())
}

//! CPU startup boosts: the webhook adds them to new pods, and the updater ends them in place.

use anyhow::{Context as _, Result, ensure};
use e2e::{eventually, free_address, is_ready, workload};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::DeleteParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::fixture::{BOUNDS, Fixture, LARGE, SMALL};
use crate::webhook::by_url::Webhook;
use crate::webhook::certificates::Mounted;

const REPLICAS: usize = 2;
/// Three times the recommendation.
const BOOSTED: &str = "750m";
const DURATION: SignedDuration = SignedDuration::from_secs(10);
const ANNOTATION: &str = "vpaCpuStartupBoost/app";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_pods_have_more_cpu_until_they_were_ready_for_the_duration() -> Result<()> {
    let fixture = Fixture::together("boost").await?;
    let heart = fixture.heart();
    let certificates = fixture.sandbox.logs_dir().join("boost-certificates");
    let mounted = Mounted::new(certificates, free_address()?)?;
    let flags = ["--feature-gates=CPUStartupBoost=true"];
    let webhook = Webhook::start(&fixture.sandbox, &fixture.namespace, &mounted, &flags)?;
    let outcome = boosted_and_back(&fixture).await;
    drop(webhook);
    // Others use this sandbox, too.
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(fixture.client.clone());
    configurations
        .delete("vpa-webhook-config", &DeleteParams::default())
        .await?;
    outcome?;
    heart.stop().await
}

async fn boosted_and_back(fixture: &Fixture) -> Result<()> {
    let boost =
        json!({"cpu": {"type": "Factor", "factor": 3, "durationSeconds": DURATION.as_secs()}});
    let policy = json!({"updateMode": "InPlaceOrRecreate"});
    for (name, spec) in [
        ("plain", json!({"updatePolicy": policy})),
        (
            "boosted",
            json!({"updatePolicy": policy, "startupBoost": boost}),
        ),
    ] {
        let (requests, none) = (json!({"requests": {"cpu": SMALL}}), json!({}));
        fixture
            .create::<ReplicaSet>(workload(name, 0, &requests, &none))
            .await?;
        fixture.autoscale_as(name, &none, spec, BOUNDS).await?;
    }
    created(fixture, "plain", LARGE).await?;
    let pods = created(fixture, "boosted", BOOSTED).await?;
    for pod in &pods {
        let original = pod.annotations().get(ANNOTATION).context("no annotation")?;
        ensure!(original.contains(SMALL), "{original}");
    }

    let back = eventually("the boosts are over", async || {
        let pods = fixture.pods_of("boosted").await?;
        for pod in &pods {
            let has_boost = pod.annotations().contains_key(ANNOTATION);
            ensure!(!has_boost, "{} is boosted", pod.name_any());
        }
        fixture.all_large("boosted", REPLICAS).await?;
        Ok(pods)
    })
    .await?;
    for pod in &back {
        let ready_for = Timestamp::now().duration_since(ready_since(pod)?);
        ensure!(ready_for >= DURATION, "it ended after {ready_for}");
    }
    let uids = |pods: &[Pod]| -> Vec<_> { pods.iter().map(Pod::uid).collect() };
    ensure!(uids(&back) == uids(&pods), "they are the same pods");
    for pod in fixture.pods_of("plain").await? {
        ensure!(!pod.annotations().contains_key(ANNOTATION), "it is plain");
    }
    Ok(())
}

/// The new pods of a workload, whose webhook adds this request. Until it is registered, pods are
/// admitted unchanged, and others are needed.
async fn created(fixture: &Fixture, name: &str, cpu: &str) -> Result<Vec<Pod>> {
    let scale = async |replicas: usize| {
        let change = json!({"spec": {"replicas": replicas}});
        fixture.patch::<ReplicaSet>(name, change).await?;
        eventually("the pods are there", async || {
            let pods = fixture.pods_of(name).await?;
            ensure!(pods.len() == replicas, "{} of {replicas}", pods.len());
            Ok(pods)
        })
        .await
    };
    eventually(&format!("{name} is created with {cpu}"), async || {
        let pods = scale(REPLICAS).await?;
        let found: Vec<_> = pods.iter().map(requested).collect();
        let has_all = found.iter().all(|found| found.as_deref() == Some(cpu));
        if !has_all {
            scale(0).await?;
        }
        ensure!(has_all, "{found:?}");
        Ok(pods)
    })
    .await
}

/// The CPU in the specification of the pod's container.
fn requested(pod: &Pod) -> Option<String> {
    let resources = pod.spec.as_ref()?.containers.first()?.resources.as_ref()?;
    Some(resources.requests.as_ref()?.get("cpu")?.0.clone())
}

fn ready_since(pod: &Pod) -> Result<Timestamp> {
    ensure!(is_ready(pod), "it is not ready");
    let status = pod.status.iter();
    let mut conditions = status.flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.find(|condition| condition.type_ == "Ready");
    let since = ready.and_then(|ready| ready.last_transition_time.as_ref());
    Ok(since.context("a time")?.0)
}

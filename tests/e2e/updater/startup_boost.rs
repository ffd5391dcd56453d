//! CPU startup boosts: the webhook adds them to new pods, and the updater ends them in place.

use anyhow::{Context as _, Result, ensure};
use e2e::{eventually, free_address, is_ready, with, workload};
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
    let boosts = [("resized", "InPlaceOrRecreate"), ("initial", "Initial")];
    let boosts = boosts.map(|(name, mode)| (name, mode, json!({"startupBoost": boost})));
    let plain = ("plain", "InPlaceOrRecreate", json!({}));
    for (name, mode, boost) in boosts.iter().chain([&plain]) {
        let (requests, none) = (json!({"requests": {"cpu": SMALL}}), json!({}));
        fixture
            .create::<ReplicaSet>(workload(name, 0, &requests, &none))
            .await?;
        let spec = with(json!({"updatePolicy": {"updateMode": mode}}), boost.clone());
        fixture.autoscale_as(name, &none, spec, BOUNDS).await?;
    }
    created(fixture, "plain", LARGE).await?;
    for (name, ..) in boosts {
        let pods = created(fixture, name, BOOSTED).await?;
        for pod in &pods {
            let original = pod.annotations().get(ANNOTATION).context("no annotation")?;
            ensure!(original.contains(SMALL), "{original}");
        }
        ended(fixture, name, &pods).await?;
    }
    for pod in fixture.pods_of("plain").await? {
        ensure!(!pod.annotations().contains_key(ANNOTATION), "it is plain");
    }
    Ok(())
}

/// Waits until the boosts of a workload are over, and checks that none ended too early.
async fn ended(fixture: &Fixture, name: &str, created: &[Pod]) -> Result<()> {
    fixture.all_large(name, REPLICAS).await?;
    let pods = eventually("the annotations are removed", async || {
        let pods = fixture.pods_of(name).await?;
        for pod in &pods {
            let has_boost = pod.annotations().contains_key(ANNOTATION);
            ensure!(!has_boost, "{} has one", pod.name_any());
        }
        Ok(pods)
    })
    .await?;
    let uids = |pods: &[Pod]| -> Vec<_> { pods.iter().map(Pod::uid).collect() };
    ensure!(uids(&pods) == uids(created), "they are the same pods");
    for pod in &pods {
        let after = resized_at(pod)?.duration_since(ready_since(pod)?);
        ensure!(after >= DURATION, "{name}: it ended after {after:#}");
    }
    Ok(())
}

/// The time of the pod's last resize.
fn resized_at(pod: &Pod) -> Result<Timestamp> {
    let writes = pod.metadata.managed_fields.iter().flatten();
    let mut resizes = writes.filter(|write| write.subresource.as_deref() == Some("resize"));
    let at = resizes.next().and_then(|resize| resize.time.as_ref());
    Ok(at.context("it was not resized")?.0)
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

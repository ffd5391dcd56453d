//! What the updater does when what it needs is gone: the webhook, the leader, answers. And when somebody stops it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::deployed::{metric, process, scrape};
use e2e::{eventually, kubectl_in};
use sandbox::Component;
use serde_json::json;

use super::stage::{LARGE, PATIENCE, Stage};
use super::watching::Watching;

const REPLICAS: usize = 12;
/// Pods that are replaced before something happens.
const SOME: usize = 3;

/// One pod at a time, so that there is time for something to happen.
async fn slow_workload(stage: &Stage) -> Result<()> {
    stage.workload("web", REPLICAS, &json!({})).await?;
    stage.protect("web", REPLICAS - 1).await?;
    stage.autoscale("web", &json!({"updateMode": "Recreate"})).await
}

async fn large(stage: &Stage) -> Result<usize> {
    Ok(stage.sizes("web").await?.iter().filter(|(_, cpu)| cpu == LARGE).count())
}

async fn some_are_replaced(stage: &Stage) -> Result<()> {
    eventually("some pods are replaced", PATIENCE, async || {
        let large = large(stage).await?;
        ensure!(large >= SOME, "{large} are");
        Ok(())
    })
    .await
}

async fn is_held(stage: &Stage, reason: &str) -> Result<()> {
    let leader = stage.leader().await?;
    let expected = format!("vpa_updater_held{{reason=\"{reason}\"}} 1");
    eventually(&format!("everything is held: {reason}"), PATIENCE, async || {
        ensure!(scrape(&leader).await?.contains(&expected), "it is not");
        ensure!(metric(&leader, "vpa_updater_acts_in_flight").await? == 0.0, "something is under way");
        Ok(())
    })
    .await
}

async fn signal(stage: &Stage, signal: &str) -> Result<()> {
    let process = process(&stage.client, &stage.leader().await?).await?;
    let status = std::process::Command::new("kill").args([signal, &process.to_string()]).status()?;
    ensure!(status.success(), "kill {signal} {process}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_moves_while_the_webhook_is_silent_or_somebody_stops_it() -> Result<()> {
    let stage = Stage::take("held").await?;
    is_held(&stage, "webhook_gone").await?;
    slow_workload(&stage).await?;
    let watching = Watching::of(stage.pods.clone()).await?;
    // A pass of its own after the object and its recommendation are there.
    is_held(&stage, "webhook_gone").await?;
    ensure!(large(&stage).await? == 0, "it moved pods without a webhook");
    let heart = stage.heart();
    some_are_replaced(&stage).await?;

    let sandbox = stage.sandbox()?;
    let switch = ["-n", "plimsoll-system", "create", "configmap", "plimsoll-stop"];
    kubectl_in(sandbox, &switch).await?;
    let thrown = Instant::now();
    is_held(&stage, "stopped").await?;
    let took = thrown.elapsed();
    println!("the switch worked after {took:.1?}, as far as its metric was looked at");
    ensure!(took < Duration::from_secs(1), "the switch took {took:?}");
    let stopped_at = metric(&stage.leader().await?, "vpa_updater_evicted_pods_total").await?;
    kubectl_in(sandbox, &["-n", "plimsoll-system", "delete", "configmap", "plimsoll-stop"]).await?;
    let uids = stage.all_large("web", REPLICAS).await?;
    let moved = metric(&stage.leader().await?, "vpa_updater_evicted_pods_total").await?;
    ensure!(moved > stopped_at, "it went on");
    let fewest = watching.fewest("web", &uids).await?;
    ensure!(fewest >= REPLICAS - 1, "{fewest} were left");

    heart.stop().await?;
    is_held(&stage, "webhook_gone").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_killed_in_mid_rollout_leaves_no_pod_too_many_away() -> Result<()> {
    let stage = Stage::take("killed").await?;
    let heart = stage.heart();
    // Half of the pods may be away, by the updater's own tolerance: no budget of the cluster helps it to remember.
    stage.workload("wide", REPLICAS, &json!({})).await?;
    slow_workload(&stage).await?;
    let watching = Watching::of(stage.pods.clone()).await?;
    some_are_replaced(&stage).await?;
    // The rest waits for the next leader.
    stage.change_budget("web", REPLICAS).await?;
    let first = stage.leader().await?;
    stage.autoscale("wide", &json!({"updateMode": "Recreate"})).await?;
    let any = |sizes: Vec<(String, String)>| sizes.iter().any(|(_, cpu)| cpu == LARGE);
    eventually("the second workload is begun with", PATIENCE, async || {
        ensure!(any(stage.sizes("wide").await?), "it is not");
        Ok(())
    })
    .await?;
    signal(&stage, "-9").await?;
    let left = REPLICAS - large(&stage).await?;
    ensure!(left > 0, "there was nothing left to do");
    stage.change_budget("web", REPLICAS - 1).await?;
    for (workload, at_least) in [("web", REPLICAS - 1), ("wide", REPLICAS / 2)] {
        let uids = stage.all_large(workload, REPLICAS).await?;
        let fewest = watching.fewest(workload, &uids).await?;
        ensure!(fewest >= at_least, "{workload}: {fewest} were left");
    }
    let second = stage.leader().await?;
    println!("{} left {left} of {REPLICAS} pods to {}", first.pod, second.pod);
    heart.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_survives_an_api_server_that_refuses_evictions_and_goes_away() -> Result<()> {
    let stage = Stage::take("refused").await?;
    let heart = stage.heart();
    slow_workload(&stage).await?;
    let watching = Watching::of(stage.pods.clone()).await?;
    some_are_replaced(&stage).await?;
    // A webhook that nobody serves: the API server answers each eviction with 500.
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "no-evictions"},
        "webhooks": [{
            "name": "no-evictions.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}],
        }],
    });
    let hooks: kube::Api<k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration> =
        kube::Api::all(stage.client.clone());
    hooks.create(&kube::api::PostParams::default(), &serde_json::from_value(webhook)?).await?;
    let leader = stage.leader().await?;
    eventually("evictions fail", PATIENCE, async || {
        let failed = metric(&leader, "vpa_updater_failed_eviction_attempts_total").await.unwrap_or(0.0);
        ensure!(failed >= 2.0, "{failed} did");
        Ok(())
    })
    .await?;
    hooks.delete("no-evictions", &kube::api::DeleteParams::default()).await?;
    let replaced = large(&stage).await?;
    let sandbox = stage.sandbox()?;
    sandbox.pause(Component::KubeApiserver).await?;
    eventually("the leader cannot renew its Lease and stands by", PATIENCE, async || {
        ensure!(metric(&leader, "leader_election_master_status").await? == 0.0, "it leads");
        Ok(())
    })
    .await?;
    sandbox.resume(Component::KubeApiserver).await?;
    let uids = stage.all_large("web", REPLICAS).await?;
    println!("{replaced} of {REPLICAS} pods were replaced before the API server went away");
    let fewest = watching.fewest("web", &uids).await?;
    ensure!(fewest >= REPLICAS - 1, "{fewest} were left");
    heart.stop().await
}

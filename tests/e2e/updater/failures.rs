//! What the updater does when what it needs is gone: the webhook, the leader, answers. And when
//! somebody stops it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::deployed::{metric, process, scrape};
use e2e::{Watching, eventually};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, EvictParams, ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use sandbox::Component;
use serde_json::json;

use super::stage::{LARGE, PATIENCE, SMALL, Stage};

const REPLICAS: usize = 12;
/// Pods that are replaced before something happens.
const SOME: usize = 3;
/// Of the workload that waits.
const WAITING: usize = 3;
/// Somebody stops the updater with a `ConfigMap` of this name.
const SWITCH: &str = "plimsoll-stop";

/// One pod at a time, so that there is time for something to happen.
async fn slow_workload(stage: &Stage) -> Result<()> {
    unmoved_workload(stage).await?;
    stage
        .autoscale("web", &json!({"updateMode": "Recreate"}))
        .await
}

/// The same, not autoscaled yet.
async fn unmoved_workload(stage: &Stage) -> Result<()> {
    stage.workload("web", REPLICAS, &json!({})).await?;
    stage.protect("web", REPLICAS - 1).await
}

/// Another that is to be moved as soon as its budget allows it, so that there is something left to
/// do however fast the updater is.
async fn waiting_workload(stage: &Stage) -> Result<()> {
    stage.workload("rest", WAITING, &json!({})).await?;
    stage.protect("rest", WAITING).await?;
    stage
        .autoscale("rest", &json!({"updateMode": "Recreate"}))
        .await
}

/// Lets the workload that waits move, and waits until it has.
async fn the_rest_moves(stage: &Stage, watching: &Watching) -> Result<()> {
    ensure!(
        stage
            .sizes("rest")
            .await?
            .iter()
            .all(|(_, cpu)| cpu == SMALL),
        "its budget holds it"
    );
    stage.change_budget("rest", WAITING - 1).await?;
    let uids = stage.all_large("rest", WAITING).await?;
    let fewest = watching.fewest("rest", &uids).await?;
    ensure!(fewest >= WAITING - 1, "{fewest} were left");
    Ok(())
}

async fn large(stage: &Stage) -> Result<usize> {
    Ok(stage
        .sizes("web")
        .await?
        .iter()
        .filter(|(_, cpu)| cpu == LARGE)
        .count())
}

async fn some_are_replaced(stage: &Stage) -> Result<()> {
    eventually("some pods are replaced", PATIENCE, async || {
        let large = large(stage).await?;
        ensure!(large >= SOME, "{large} are");
        Ok(())
    })
    .await
}

/// Waits until nothing is done, and nothing is under way either.
async fn is_held(stage: &Stage, reason: &str) -> Result<()> {
    let expected = format!("vpa_updater_held{{reason=\"{reason}\"}} 1");
    eventually(
        &format!("everything is held: {reason}"),
        PATIENCE,
        async || {
            let metrics = scrape(&stage.leader().await?).await?;
            ensure!(metrics.contains(&expected), "it is not");
            ensure!(
                metrics.contains("\nvpa_updater_acts_in_flight 0\n"),
                "something is under way"
            );
            Ok(())
        },
    )
    .await
}

/// Throws the switch, and gives how long it took until nothing was under way any more.
async fn stop(stage: &Stage, switches: &Api<ConfigMap>) -> Result<Duration> {
    let switch = serde_json::from_value(json!({"metadata": {"name": SWITCH}}))?;
    switches.create(&PostParams::default(), &switch).await?;
    let thrown = Instant::now();
    is_held(stage, "stopped").await?;
    Ok(thrown.elapsed())
}

async fn signal(stage: &Stage, signal: &str) -> Result<()> {
    let process = process(&stage.client, &stage.leader().await?).await?;
    let status = std::process::Command::new("kill")
        .args([signal, &process.to_string()])
        .status()?;
    ensure!(status.success(), "kill {signal} {process}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_moves_while_the_webhook_is_silent_or_somebody_stops_it() -> Result<()> {
    let stage = Stage::take("held").await?;
    is_held(&stage, "webhook_gone").await?;
    stage.workload("later", SOME, &json!({})).await?;
    slow_workload(&stage).await?;
    let watching = Watching::of(stage.pods.clone()).await?;
    // A pass of its own after the object and its recommendation are there.
    is_held(&stage, "webhook_gone").await?;
    ensure!(large(&stage).await? == 0, "it moved pods without a webhook");
    let heart = stage.heart();
    some_are_replaced(&stage).await?;

    let switches: Api<ConfigMap> = Api::namespaced(stage.client.clone(), "plimsoll-system");
    let mut took = stop(&stage, &switches).await?;
    // Something else may keep the machine, or move the Lease: the best of three counts.
    for _ in 0..2 {
        println!("the switch worked after {took:.1?}, as far as its metric was looked at");
        if took < Duration::from_secs(1) {
            break;
        }
        switches.delete(SWITCH, &DeleteParams::default()).await?;
        took = took.min(stop(&stage, &switches).await?);
    }
    ensure!(took < Duration::from_secs(1), "the switch took {took:?}");
    // What comes now has to wait for the end of that.
    stage
        .autoscale("later", &json!({"updateMode": "Recreate"}))
        .await?;
    is_held(&stage, "stopped").await?;
    ensure!(
        stage
            .sizes("later")
            .await?
            .iter()
            .all(|(_, cpu)| cpu != LARGE),
        "it moved pods although it was stopped"
    );
    switches.delete(SWITCH, &DeleteParams::default()).await?;
    stage.all_large("later", SOME).await?;
    let uids = stage.all_large("web", REPLICAS).await?;
    let fewest = watching.fewest("web", &uids).await?;
    ensure!(fewest >= REPLICAS - 1, "{fewest} were left");

    heart.stop().await?;
    is_held(&stage, "webhook_gone").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_killed_in_mid_rollout_leaves_no_pod_too_many_away() -> Result<()> {
    let stage = Stage::take("killed").await?;
    let heart = stage.heart();
    // Half of the pods may be away, by the updater's own tolerance: no budget of the cluster helps
    // it to remember.
    stage.workload("wide", REPLICAS, &json!({})).await?;
    waiting_workload(&stage).await?;
    slow_workload(&stage).await?;
    let watching = Watching::of(stage.pods.clone()).await?;
    some_are_replaced(&stage).await?;
    let first = stage.leader().await?;
    stage
        .autoscale("wide", &json!({"updateMode": "Recreate"}))
        .await?;
    let any = |sizes: Vec<(String, String)>| sizes.iter().any(|(_, cpu)| cpu == LARGE);
    eventually("the second workload is begun with", PATIENCE, async || {
        ensure!(any(stage.sizes("wide").await?), "it is not");
        Ok(())
    })
    .await?;
    signal(&stage, "-9").await?;
    let left = REPLICAS - large(&stage).await?;
    the_rest_moves(&stage, &watching).await?;
    for (workload, at_least) in [("web", REPLICAS - 1), ("wide", REPLICAS / 2)] {
        let uids = stage.all_large(workload, REPLICAS).await?;
        let fewest = watching.fewest(workload, &uids).await?;
        ensure!(fewest >= at_least, "{workload}: {fewest} were left");
    }
    let second = stage.leader().await?;
    println!(
        "{} left {left} of {REPLICAS} pods to {}",
        first.pod, second.pod
    );
    heart.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_survives_an_api_server_that_refuses_evictions_and_goes_away() -> Result<()> {
    let stage = Stage::take("refused").await?;
    let heart = stage.heart();
    waiting_workload(&stage).await?;
    unmoved_workload(&stage).await?;
    let watching = Watching::of(stage.pods.clone()).await?;
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
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(stage.client.clone());
    let failed_before = stage
        .total("vpa_updater_failed_eviction_attempts_total")
        .await?;
    hooks
        .create(&PostParams::default(), &serde_json::from_value(webhook)?)
        .await?;
    let any = stage.pods.list(&ListParams::default().limit(1)).await?;
    let any = any.items.first().context("there are pods")?.name_any();
    let dry = EvictParams {
        post_options: PostParams {
            dry_run: true,
            ..PostParams::default()
        },
        ..EvictParams::default()
    };
    eventually("the API server knows the webhook", PATIENCE, async || {
        let answer = stage.pods.evict(&any, &dry).await;
        ensure!(
            matches!(&answer, Err(kube::Error::Api(status)) if status.code == 500),
            "{answer:?}"
        );
        Ok(())
    })
    .await?;
    stage
        .autoscale("web", &json!({"updateMode": "Recreate"}))
        .await?;
    eventually("evictions fail", PATIENCE, async || {
        let failed = stage
            .total("vpa_updater_failed_eviction_attempts_total")
            .await?;
        ensure!(
            failed >= failed_before + 2.0,
            "{failed} did, {failed_before} of them before"
        );
        Ok(())
    })
    .await?;
    hooks
        .delete("no-evictions", &DeleteParams::default())
        .await?;
    some_are_replaced(&stage).await?;
    let replaced = large(&stage).await?;
    let leader = stage.leader().await?;
    let sandbox = stage.sandbox()?;
    sandbox.pause(Component::KubeApiserver).await?;
    eventually(
        "the leader cannot renew its Lease and stands by",
        PATIENCE,
        async || {
            ensure!(
                metric(&leader, "leader_election_master_status").await? == 0.0,
                "it leads"
            );
            Ok(())
        },
    )
    .await?;
    sandbox.resume(Component::KubeApiserver).await?;
    the_rest_moves(&stage, &watching).await?;
    let uids = stage.all_large("web", REPLICAS).await?;
    println!("{replaced} of {REPLICAS} pods were replaced before the API server went away");
    let fewest = watching.fewest("web", &uids).await?;
    ensure!(fewest >= REPLICAS - 1, "{fewest} were left");
    heart.stop().await
}

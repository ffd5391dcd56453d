//! The updater without its dependencies (webhook, leader, answers), and with the kill switch.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::deployed::{metric, process, scrape};
use e2e::measuring::checks_latency;
use e2e::{Watching, eventually};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, EvictParams, ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use sandbox::Component;
use serde_json::json;

use super::fixture::{Fixture, LARGE, PATIENCE, SMALL};

const REPLICAS: usize = 12;
/// Pods that are replaced before something happens.
const SOME: usize = 3;
/// Of the workload that waits.
const WAITING: usize = 3;
/// Name of the kill switch's `ConfigMap`.
const SWITCH: &str = "plimsoll-stop";

/// One pod at a time, so that there is time for something to happen.
async fn slow_workload(fixture: &Fixture) -> Result<()> {
    unmoved_workload(fixture).await?;
    fixture
        .autoscale("web", &json!({"updateMode": "Recreate"}))
        .await
}

/// The same, not autoscaled yet.
async fn unmoved_workload(fixture: &Fixture) -> Result<()> {
    fixture.workload("web", REPLICAS, &json!({})).await?;
    fixture.protect("web", REPLICAS - 1).await
}

/// Another that is to be moved as soon as its budget allows it, so that there is something left to
/// do however fast the updater is.
async fn waiting_workload(fixture: &Fixture) -> Result<()> {
    fixture.workload("rest", WAITING, &json!({})).await?;
    fixture.protect("rest", WAITING).await?;
    fixture
        .autoscale("rest", &json!({"updateMode": "Recreate"}))
        .await
}

/// Lets the workload that waits move, and waits until it has.
async fn the_rest_moves(fixture: &Fixture, watching: &Watching) -> Result<()> {
    ensure!(
        fixture
            .sizes("rest")
            .await?
            .iter()
            .all(|(_, cpu)| cpu == SMALL),
        "its budget holds it"
    );
    fixture.change_budget("rest", WAITING - 1).await?;
    let uids = fixture.all_large("rest", WAITING).await?;
    let fewest = watching.fewest("rest", &uids).await?;
    ensure!(fewest >= WAITING - 1, "{fewest} were left");
    Ok(())
}

async fn large(fixture: &Fixture) -> Result<usize> {
    Ok(fixture
        .sizes("web")
        .await?
        .iter()
        .filter(|(_, cpu)| cpu == LARGE)
        .count())
}

async fn some_are_replaced(fixture: &Fixture) -> Result<()> {
    eventually("some pods are replaced", PATIENCE, async || {
        let large = large(fixture).await?;
        ensure!(large >= SOME, "{large} are");
        Ok(())
    })
    .await
}

/// Waits until nothing is done, and nothing is under way either.
async fn is_held(fixture: &Fixture, reason: &str) -> Result<()> {
    let expected = format!("vpa_updater_held{{reason=\"{reason}\"}} 1");
    eventually(
        &format!("everything is held: {reason}"),
        PATIENCE,
        async || {
            let metrics = scrape(&fixture.leader().await?).await?;
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

/// Sets the kill switch, and returns the time until no update was under way any more.
async fn stop(fixture: &Fixture, switches: &Api<ConfigMap>) -> Result<Duration> {
    let switch = serde_json::from_value(json!({"metadata": {"name": SWITCH}}))?;
    switches.create(&PostParams::default(), &switch).await?;
    let thrown = Instant::now();
    is_held(fixture, "stopped").await?;
    Ok(thrown.elapsed())
}

async fn signal(fixture: &Fixture, signal: &str) -> Result<()> {
    let process = process(&fixture.client, &fixture.leader().await?).await?;
    let status = std::process::Command::new("kill")
        .args([signal, &process.to_string()])
        .status()?;
    ensure!(status.success(), "kill {signal} {process}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_updated_without_the_webhook_or_with_the_kill_switch() -> Result<()> {
    let fixture = Fixture::take("held").await?;
    is_held(&fixture, "webhook_gone").await?;
    fixture.workload("later", SOME, &json!({})).await?;
    slow_workload(&fixture).await?;
    let watching = Watching::of(fixture.pods.clone()).await?;
    // A pass of its own after the object and its recommendation are there.
    is_held(&fixture, "webhook_gone").await?;
    ensure!(
        large(&fixture).await? == 0,
        "it moved pods without a webhook"
    );
    let heart = fixture.heart();
    some_are_replaced(&fixture).await?;

    let switches: Api<ConfigMap> = Api::namespaced(fixture.client.clone(), "plimsoll-system");
    let took = stop(&fixture, &switches).await?;
    println!("the metric showed the kill switch after {took:.1?}");
    ensure!(
        !checks_latency() || took < Duration::from_secs(1),
        "the switch took {took:?}"
    );
    // What comes now has to wait for the end of that.
    fixture
        .autoscale("later", &json!({"updateMode": "Recreate"}))
        .await?;
    is_held(&fixture, "stopped").await?;
    ensure!(
        fixture
            .sizes("later")
            .await?
            .iter()
            .all(|(_, cpu)| cpu != LARGE),
        "it moved pods although it was stopped"
    );
    switches.delete(SWITCH, &DeleteParams::default()).await?;
    fixture.all_large("later", SOME).await?;
    let uids = fixture.all_large("web", REPLICAS).await?;
    let fewest = watching.fewest("web", &uids).await?;
    ensure!(fewest >= REPLICAS - 1, "{fewest} were left");

    heart.stop().await?;
    is_held(&fixture, "webhook_gone").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_killed_in_mid_rollout_leaves_no_pod_too_many_away() -> Result<()> {
    let fixture = Fixture::take("killed").await?;
    let heart = fixture.heart();
    // Half of the pods may be away, by the updater's own tolerance: no budget of the cluster helps
    // it to remember.
    fixture.workload("wide", REPLICAS, &json!({})).await?;
    waiting_workload(&fixture).await?;
    slow_workload(&fixture).await?;
    let watching = Watching::of(fixture.pods.clone()).await?;
    some_are_replaced(&fixture).await?;
    let first = fixture.leader().await?;
    fixture
        .autoscale("wide", &json!({"updateMode": "Recreate"}))
        .await?;
    let any = |sizes: Vec<(String, String)>| sizes.iter().any(|(_, cpu)| cpu == LARGE);
    eventually("the second workload is begun with", PATIENCE, async || {
        ensure!(any(fixture.sizes("wide").await?), "it is not");
        Ok(())
    })
    .await?;
    signal(&fixture, "-9").await?;
    let left = REPLICAS - large(&fixture).await?;
    the_rest_moves(&fixture, &watching).await?;
    for (workload, at_least) in [("web", REPLICAS - 1), ("wide", REPLICAS / 2)] {
        let uids = fixture.all_large(workload, REPLICAS).await?;
        let fewest = watching.fewest(workload, &uids).await?;
        ensure!(fewest >= at_least, "{workload}: {fewest} were left");
    }
    let second = fixture.leader().await?;
    println!(
        "{} left {left} of {REPLICAS} pods to {}",
        first.pod, second.pod
    );
    heart.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_survives_an_api_server_that_refuses_evictions_and_goes_away() -> Result<()> {
    let fixture = Fixture::take("refused").await?;
    let heart = fixture.heart();
    waiting_workload(&fixture).await?;
    unmoved_workload(&fixture).await?;
    let watching = Watching::of(fixture.pods.clone()).await?;
    // A webhook without a server: the API server answers each eviction with 500.
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "no-evictions"},
        "webhooks": [{
            "name": "no-evictions.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}],
        }],
    });
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(fixture.client.clone());
    let failed_before = fixture
        .total("vpa_updater_failed_eviction_attempts_total")
        .await?;
    hooks
        .create(&PostParams::default(), &serde_json::from_value(webhook)?)
        .await?;
    let any = fixture.pods.list(&ListParams::default().limit(1)).await?;
    let any = any.items.first().context("there are pods")?.name_any();
    let dry = EvictParams {
        post_options: PostParams {
            dry_run: true,
            ..PostParams::default()
        },
        ..EvictParams::default()
    };
    eventually("the API server knows the webhook", PATIENCE, async || {
        let answer = fixture.pods.evict(&any, &dry).await;
        ensure!(
            matches!(&answer, Err(kube::Error::Api(status)) if status.code == 500),
            "{answer:?}"
        );
        Ok(())
    })
    .await?;
    fixture
        .autoscale("web", &json!({"updateMode": "Recreate"}))
        .await?;
    eventually("evictions fail", PATIENCE, async || {
        let failed = fixture
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
    some_are_replaced(&fixture).await?;
    let replaced = large(&fixture).await?;
    let leader = fixture.leader().await?;
    let sandbox = fixture.sandbox()?;
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
    the_rest_moves(&fixture, &watching).await?;
    let uids = fixture.all_large("web", REPLICAS).await?;
    println!("{replaced} of {REPLICAS} pods were replaced before the API server went away");
    let fewest = watching.fewest("web", &uids).await?;
    ensure!(fewest >= REPLICAS - 1, "{fewest} were left");
    heart.stop().await
}

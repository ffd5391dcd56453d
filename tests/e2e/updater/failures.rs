//! The updater without the webhook, the leader or the API server, and with the stop switch.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::benchmark::checks_latency;
use e2e::deployment::{metric, process, scrape, system};
use e2e::{AvailabilityWatch, Signal, create, dry_run, eventually, signal, until};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, EvictParams};
use kube::{Api, ResourceExt as _};
use sandbox::Component;
use serde_json::json;

use super::fixture::{Fixture, LARGE, SMALL};

const REPLICAS: usize = 12;
/// Pods that are replaced before something happens.
const SOME: usize = 3;
const WAITING: usize = 3;
const FAILED: &str = "vpa_updater_failed_eviction_attempts_total";
/// Name of the kill switch's `ConfigMap`.
const SWITCH: &str = "plimsoll-stop";

/// One pod at a time, so that there is time for something to happen.
async fn slow_workload(fixture: &Fixture) -> Result<()> {
    unmoved_workload(fixture).await?;
    fixture.autoscale("web", "Recreate").await
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
    fixture.autoscale("rest", "Recreate").await
}

/// Lets the workload that waits move, and waits until it has.
async fn the_rest_moves(fixture: &Fixture, watching: &AvailabilityWatch) -> Result<()> {
    let small = fixture.count("rest", SMALL).await?;
    ensure!(
        small == fixture.uids("rest").await?.len(),
        "its budget holds it"
    );
    fixture.change_budget("rest", WAITING - 1).await?;
    fixture.moved(watching, "rest", WAITING, WAITING - 1).await
}

async fn some_are_replaced(fixture: &Fixture) -> Result<()> {
    until(
        "some pods are replaced",
        async || fixture.count("web", LARGE).await,
        |large| *large >= SOME,
    )
    .await
}

/// Waits until nothing is done, and nothing is under way either.
async fn is_paused(fixture: &Fixture, reason: &str) -> Result<()> {
    let expected = format!("vpa_updater_paused{{reason=\"{reason}\"}} 1");
    eventually(&format!("everything is paused: {reason}"), async || {
        let metrics = scrape(&fixture.leader().await?).await?;
        ensure!(metrics.contains(&expected), "it is not");
        ensure!(
            metrics.contains("\nvpa_updater_actions_in_flight 0\n"),
            "something is under way"
        );
        Ok(())
    })
    .await
}

/// Sets the kill switch, and returns the time until no update was under way any more.
async fn stop(fixture: &Fixture, switches: &Api<ConfigMap>) -> Result<Duration> {
    create(switches, json!({"metadata": {"name": SWITCH}})).await?;
    let thrown = Instant::now();
    is_paused(fixture, "stopped").await?;
    Ok(thrown.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_updated_without_the_webhook_or_with_the_kill_switch() -> Result<()> {
    let fixture = Fixture::alone("paused").await?;
    is_paused(&fixture, "webhook_lease_expired").await?;
    fixture.workload("later", SOME, &json!({})).await?;
    slow_workload(&fixture).await?;
    let watching = AvailabilityWatch::of(fixture.typed()).await?;
    // A pass of its own after the object and its recommendation are there.
    is_paused(&fixture, "webhook_lease_expired").await?;
    let large = fixture.count("web", LARGE).await?;
    ensure!(large == 0, "it moved {large} pods without a webhook");
    let heart = fixture.heart();
    some_are_replaced(&fixture).await?;

    let switches: Api<ConfigMap> = system(&fixture.client).typed();
    let took = stop(&fixture, &switches).await?;
    println!("the metric showed the kill switch after {took:.1?}");
    ensure!(
        !checks_latency() || took < Duration::from_secs(1),
        "the switch took {took:?}"
    );
    // What comes now has to wait for the end of that.
    fixture.autoscale("later", "Recreate").await?;
    is_paused(&fixture, "stopped").await?;
    let large = fixture.count("later", LARGE).await?;
    ensure!(large == 0, "it moved {large} pods although it was stopped");
    switches.delete(SWITCH, &DeleteParams::default()).await?;
    fixture.all_large("later", SOME).await?;
    fixture
        .moved(&watching, "web", REPLICAS, REPLICAS - 1)
        .await?;

    heart.stop().await?;
    is_paused(&fixture, "webhook_lease_expired").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_killed_in_mid_rollout_leaves_no_pod_too_many_away() -> Result<()> {
    let fixture = Fixture::alone("killed").await?;
    let heart = fixture.heart();
    // Half of the pods may be away, by the updater's own tolerance: no budget of the cluster helps
    // it to remember.
    fixture.workload("wide", REPLICAS, &json!({})).await?;
    waiting_workload(&fixture).await?;
    slow_workload(&fixture).await?;
    let watching = AvailabilityWatch::of(fixture.typed()).await?;
    some_are_replaced(&fixture).await?;
    let first = fixture.leader().await?;
    fixture.autoscale("wide", "Recreate").await?;
    eventually("the second workload is begun with", async || {
        ensure!(fixture.count("wide", LARGE).await? > 0, "it is not");
        Ok(())
    })
    .await?;
    signal(process(&fixture.client, &first).await?, Signal::KILL)?;
    let left = REPLICAS - fixture.count("web", LARGE).await?;
    the_rest_moves(&fixture, &watching).await?;
    for (workload, at_least) in [("web", REPLICAS - 1), ("wide", REPLICAS / 2)] {
        fixture
            .moved(&watching, workload, REPLICAS, at_least)
            .await?;
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
    let fixture = Fixture::alone("refused").await?;
    let heart = fixture.heart();
    waiting_workload(&fixture).await?;
    unmoved_workload(&fixture).await?;
    let watching = AvailabilityWatch::of(fixture.typed()).await?;
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
    let failed_before = fixture.total(FAILED).await?;
    create(&hooks, webhook).await?;
    let pods: Api<Pod> = fixture.typed();
    let any = fixture.pods_of("web").await?;
    let any = any.first().context("there are pods")?.name_any();
    let dry = EvictParams {
        post_options: dry_run(),
        ..EvictParams::default()
    };
    eventually("the API server knows the webhook", async || {
        let answer = pods.evict(&any, &dry).await;
        ensure!(
            matches!(&answer, Err(kube::Error::Api(status)) if status.code == 500),
            "{answer:?}"
        );
        Ok(())
    })
    .await?;
    fixture.autoscale("web", "Recreate").await?;
    eventually("evictions fail", async || {
        let failed = fixture.total(FAILED).await?;
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
    let replaced = fixture.count("web", LARGE).await?;
    let leader = fixture.leader().await?;
    let sandbox = &fixture.sandbox;
    sandbox.pause(Component::KubeApiserver).await?;
    eventually(
        "the leader cannot renew its Lease and stands by",
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

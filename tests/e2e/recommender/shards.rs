//! Two shards with a stand-by each: together they do the work of one recommender, one reader
//! follows both, and what happens to the leader of one does not touch the other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::checkpoint::{VerticalPodAutoscalerCheckpoint as Checkpoint, object_name};
use e2e::deployment::{
    Program, RECOMMENDER, SYSTEM, all_ready, deploy, leader, metric, system, warns_of_expiry,
};
use e2e::process::{account, client_of};
use e2e::{Authority, PATIENCE, another, create, eventually, kubectl_in, until};
use feed::Subscription;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use runtime::follow_shards;
use sandbox::Sandbox;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

use super::CPU_OF_240M;
use super::failures::kill;
use super::fixture::Fixture;
use super::fixture::{LEASE, reader_of};

/// The namespaces of each shard, by the hash of their names.
const NAMESPACES: [[&str; 2]; 2] = [["shop", "search"], ["billing", "mail"]];
const SHARDS: [Program<'_>; 2] = [shard("plimsoll.dev/shard=0"), shard("plimsoll.dev/shard=1")];
/// From the end of a leader until its successor's data is with the readers.
const TAKEOVER: Duration = Duration::from_secs(5);

const fn shard(labels: &str) -> Program<'_> {
    Program {
        labels,
        port: RECOMMENDER.port,
    }
}

/// A workload `web` and its VPA in a namespace of this name, and a checkpoint without a VPA.
async fn fixture_in(client: &Client, name: &str) -> Result<Fixture> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    create(&namespaces, json!({"metadata": {"name": name}})).await?;
    e2e::admits_pods(client, name).await?;
    let fixture = Fixture::of(client.clone(), name);
    fixture.deploy("web", 2, "240m", "300Mi").await?;
    fixture.autoscale("web", "web").await?;
    let spec = json!({"vpaObjectName": "gone", "containerName": "app"});
    fixture.make::<Checkpoint>("gone-app", spec).await?;
    Ok(fixture)
}

/// Both shards are at work: each autoscaler is handled by one of them, and its history is stored.
async fn all_is_done_once(client: &Client, fixtures: &[Fixture]) -> Result<()> {
    for fixture in fixtures {
        fixture.targets("web", "cpu", CPU_OF_240M).await?;
        let stored = object_name("web", "app");
        fixture
            .when::<Checkpoint>(&stored, "its history is stored", |_| true)
            .await?;
        // It has no VPA.
        fixture.gone::<Checkpoint>("gone-app").await?;
    }
    for shard in SHARDS {
        eventually("each shard handles its own", async || {
            let leader = leader(client, shard).await?;
            let handled = metric(&leader, "vpa_recommender_vpa_objects_count").await?;
            ensure!(
                (handled - 2.0).abs() < f64::EPSILON,
                "{} handles {handled}",
                leader.pod
            );
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// The state that a reader of the feed sees with the Role of `deploy/`.
async fn reader_client(sandbox: &Sandbox) -> Result<Client> {
    for create in [
        "-n plimsoll-system create serviceaccount reader",
        "-n plimsoll-system create rolebinding reader --role=plimsoll-feed-reader \
         --serviceaccount=plimsoll-system:reader",
    ] {
        kubectl_in(sandbox, create).await?;
    }
    client_of(account(sandbox, SYSTEM, "reader").await?).await
}

/// Number of shards in the configuration of every reader of the feed.
async fn readers_shards(client: &Client) -> Result<u16> {
    let deployments: Api<Deployment> = system(client).typed();
    let mut known = BTreeSet::new();
    for reader in ["plimsoll-adapter", "plimsoll-updater", "plimsoll-webhook"] {
        let template = deployments.get(reader).await?.spec.template;
        let containers = template.spec.context("a pod")?.containers;
        let args = containers
            .into_iter()
            .flat_map(|container| container.args.unwrap_or_default());
        let shards = args
            .filter_map(|arg| {
                arg.strip_prefix(r#"--config={"feed":{"shards":"#)
                    .map(str::to_owned)
            })
            .collect::<Vec<_>>();
        known.insert(shards);
    }
    let all = known.into_iter().collect::<Vec<_>>();
    ensure!(all == [["2}}"]], "readers follow {all:?}");
    Ok(2)
}

/// Starts to read the feeds of both shards.
async fn follow(sandbox: &Sandbox, client: &Client) -> Result<watch::Receiver<Subscription>> {
    let leases: Api<Lease> = Api::namespaced(reader_client(sandbox).await?, "plimsoll-system");
    let (leaders, finding) = follow_shards(&leases, LEASE, readers_shards(client).await?);
    tokio::spawn(finding);
    let (following, reading) = reader_of(client, leaders).await?.subscribe();
    tokio::spawn(reading);
    Ok(following)
}

/// The term of each object's value, by namespace.
fn terms(following: &Subscription) -> BTreeMap<String, u64> {
    following
        .iter()
        .map(|(_, received)| (received.value.namespace.clone(), received.term))
        .collect()
}

/// Waits until readers have what both shards tell.
async fn received(
    following: &mut watch::Receiver<Subscription>,
    is_so: impl Fn(&Subscription) -> bool,
) -> Result<()> {
    let received = timeout(PATIENCE, following.wait_for(is_so)).await;
    drop(received.context("both shards are received")??);
    Ok(())
}

/// Kills the leader of a shard. Readers have the data of its successor soon; until then they have
/// the last one's, and what the other shard tells is not interrupted. A machine that is so busy
/// that leaders lose their Leases may need another try.
async fn kill_the_leader(
    client: &Client,
    shard: usize,
    following: &mut watch::Receiver<Subscription>,
) -> Result<()> {
    let mut outcome = Ok(());
    for _ in 0..3 {
        all_ready(client, RECOMMENDER.labels).await?;
        let fresh = |now: &Subscription| now.stale_since().is_none();
        received(following, fresh).await?;
        let (took, was_interrupted) = kill_once(client, shard, following).await?;
        println!(
            "shard {shard}: readers had the data of the next leader {took:.2?} after kill -9 of the last one"
        );
        if took < TAKEOVER && !was_interrupted {
            return Ok(());
        }
        outcome = Err(anyhow::anyhow!(
            "{took:?}; the other shard was interrupted: {was_interrupted}"
        ));
    }
    outcome
}

/// Returns the time until the successor's data arrived, and whether the other shard was interrupted
/// meanwhile.
async fn kill_once(
    client: &Client,
    shard: usize,
    following: &mut watch::Receiver<Subscription>,
) -> Result<(Duration, bool)> {
    let before = terms(&following.borrow());
    let leader = leader(client, SHARDS[shard]).await?;
    let killed = Instant::now();
    kill(client, &leader).await?;
    let (mut complaint, mut was_interrupted) = (None, false);
    let is_followed = |now: &Subscription| {
        let terms = terms(now);
        if terms.len() < before.len() {
            complaint = Some(format!("of {before:?} only {terms:?} is there"));
        }
        was_interrupted |= now.leaders()[1 - shard].stale_since.is_some();
        if before
            .iter()
            .any(|(namespace, term)| terms.get(namespace).is_some_and(|now| now < term))
        {
            complaint = Some(format!("{before:?}, then {terms:?}"));
        }
        let is_new = |namespace: &str| terms.get(namespace) > before.get(namespace);
        complaint.is_some()
            || (now.stale_since().is_none() && NAMESPACES[shard].iter().all(|name| is_new(name)))
    };
    timeout(PATIENCE, following.wait_for(is_followed))
        .await
        .context("no successor is followed")??;
    let took = killed.elapsed();
    ensure!(complaint.is_none(), "{complaint:?}");
    Ok((took, was_interrupted))
}

/// Starts the adapter and the webhook, whose certificate expires soon. They, the updater and the
/// test read the feed of each shard.
async fn each_program_follows_both(sandbox: &Sandbox, client: &Client) -> Result<()> {
    let name = "plimsoll-webhook-tls";
    let issued = Authority::new("test")?.issue_expiring(name)?;
    create(&system(client).typed::<Secret>(), issued.secret(name)).await?;
    let scale = format!("-n {SYSTEM} scale --replicas=1");
    for program in ["plimsoll-adapter", "plimsoll-webhook"] {
        kubectl_in(sandbox, &format!("{scale} deployment {program}")).await?;
    }
    for shard in SHARDS {
        until(
            "each program reads the feed of each shard",
            async || {
                anyhow::Ok(metric(&leader(client, shard).await?, "plimsoll_feed_readers").await?)
            },
            |readers| *readers >= 4.0,
        )
        .await?;
    }
    warns_of_expiry(client, "plimsoll-webhook-").await
}

/// Both shards notice a leader without shards, such as upstream's recommender.
async fn an_undivided_leader_is_noticed(client: &Client) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "plimsoll-system");
    eventually("both shards notice an undivided leader", async || {
        let spec = LeaseSpec {
            holder_identity: Some("undivided".to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..LeaseSpec::default()
        };
        let name = json!({"name": LEASE});
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": name, "spec": spec});
        leases.patch(LEASE, &PatchParams::apply("e2e").force(), &Patch::Apply(lease)).await?;
        for shard in SHARDS {
            let conflict = metric(&leader(client, shard).await?, "vpa_recommender_shard_conflict").await?;
            ensure!(conflict > 0.0, "{} sees none", shard.labels);
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn two_shards_do_the_work_of_one_and_fail_apart() -> Result<()> {
    let sandbox = another("shards").await?;
    let client = sandbox.client().await?;
    deploy(&sandbox, "tests/e2e/recommender/shards", RECOMMENDER.labels).await?;
    let mut fixtures = Vec::new();
    for name in NAMESPACES.concat() {
        fixtures.push(fixture_in(&client, name).await?);
    }
    all_is_done_once(&client, &fixtures).await?;
    let mut following = follow(&sandbox, &client).await?;
    let all =
        |now: &Subscription| now.stale_since().is_none() && terms(now).len() == fixtures.len();
    received(&mut following, all).await?;
    for shard in [0, 1] {
        kill_the_leader(&client, shard, &mut following).await?;
    }
    all_is_done_once(&client, &fixtures).await?;
    each_program_follows_both(&sandbox, &client).await?;
    an_undivided_leader_is_noticed(&client).await?;
    sandbox.down().await
}

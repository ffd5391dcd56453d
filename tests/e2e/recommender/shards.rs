//! Two shards with a stand-by each: together they do the work of one recommender, one reader
//! follows both, and what happens to the leader of one does not touch the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::checkpoint::{VerticalPodAutoscalerCheckpoint, object_name};
use e2e::deployed::{deploy, leader_of, metric, recovered};
use e2e::{FEED_SERVER, another, eventually, feed_certificates, kubectl_in};
use feed::{Reader, Subscription};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use runtime::follow_shards;
use rustls_pki_types::ServerName;
use sandbox::Sandbox;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

use super::failures::kill;
use super::fixture::{Fixture, PATIENCE};
use super::{CPU_OF_240M, deployment};

/// The namespaces of each shard, by the hash of their names.
const NAMESPACES: [[&str; 2]; 2] = [["shop", "search"], ["billing", "mail"]];
const SHARDS: [&str; 2] = ["plimsoll.dev/shard=0", "plimsoll.dev/shard=1"];
const LEASE: &str = "vpa-recommender-lease";
/// From the end of a leader until its successor's data is with the readers.
const TAKEOVER: Duration = Duration::from_secs(5);

/// A workload `web` and its VPA in a namespace of this name, and a checkpoint without a VPA.
async fn fixture_in(client: &Client, name: &str) -> Result<Fixture> {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    let namespace = Namespace {
        metadata,
        ..Namespace::default()
    };
    Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await?;
    e2e::admits_pods(client, name).await?;
    let fixture = Fixture::of(client.clone(), name);
    fixture.deploy("web", 2, "240m", "300Mi").await?;
    fixture
        .autoscale("web", deployment("web"), &json!({}))
        .await?;
    let kind = ApiResource::erase::<VerticalPodAutoscalerCheckpoint>(&());
    let useless = json!({
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "gone-app"},
        "spec": {"vpaObjectName": "gone", "containerName": "app"},
    });
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), name, &kind);
    objects
        .create(&PostParams::default(), &serde_json::from_value(useless)?)
        .await?;
    Ok(fixture)
}

/// Both shards are at work: each autoscaler is handled by one of them, and its history is stored.
async fn all_is_done_once(client: &Client, fixtures: &[Fixture]) -> Result<()> {
    for fixture in fixtures {
        fixture
            .object_with_target("web", "cpu", CPU_OF_240M)
            .await?;
        let checkpoints: Api<VerticalPodAutoscalerCheckpoint> =
            Api::namespaced(client.clone(), &fixture.namespace);
        eventually(
            "its history is stored, and the checkpoint without a VPA is collected",
            PATIENCE,
            async || {
                checkpoints.get(&object_name("web", "app")).await?;
                ensure!(
                    checkpoints.get_opt("gone-app").await?.is_none(),
                    "gone-app is there"
                );
                Ok(())
            },
        )
        .await?;
    }
    for shard in SHARDS {
        eventually("each shard handles its own", PATIENCE, async || {
            let leader = leader_of(client, shard).await?;
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
    kubectl_in(
        sandbox,
        &[
            "-n",
            "plimsoll-system",
            "create",
            "serviceaccount",
            "reader",
        ],
    )
    .await?;
    let role = [
        "create",
        "rolebinding",
        "reader",
        "--role=plimsoll-feed-reader",
    ];
    let account = [
        "-n",
        "kube-system",
        "--serviceaccount=plimsoll-system:reader",
    ];
    kubectl_in(sandbox, &[&role[..], &account[..]].concat()).await?;
    let token = kubectl_in(
        sandbox,
        &["-n", "plimsoll-system", "create", "token", "reader"],
    )
    .await?;
    let mut config = Kubeconfig::read_from(sandbox.kubeconfig())?;
    for user in &mut config.auth_infos {
        user.auth_info = Some(AuthInfo {
            token: Some(token.trim().to_owned().into()),
            ..AuthInfo::default()
        });
    }
    Ok(Client::try_from(
        Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?,
    )?)
}

/// Number of shards in the configuration of every reader of the feed.
async fn readers_shards(client: &Client) -> Result<u16> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "plimsoll-system");
    let mut known = BTreeSet::new();
    for reader in ["plimsoll-updater", "plimsoll-webhook"] {
        let template = deployments.get(reader).await?.spec.template;
        let containers = template.spec.context("a pod")?.containers;
        let args = containers
            .into_iter()
            .flat_map(|container| container.args.unwrap_or_default());
        let shards = args
            .filter_map(|arg| arg.strip_prefix("--feed-shards=").map(str::to_owned))
            .collect::<Vec<_>>();
        known.insert(shards);
    }
    let all = known.into_iter().collect::<Vec<_>>();
    ensure!(all == [["2"]], "readers follow {all:?}");
    Ok(2)
}

/// Starts to read the feeds of both shards.
async fn follow(sandbox: &Sandbox, client: &Client) -> Result<watch::Receiver<Subscription>> {
    let config = feed_certificates(client).await?;
    let leases: Api<Lease> = Api::namespaced(reader_client(sandbox).await?, "kube-system");
    let (leaders, finding) = follow_shards(&leases, LEASE, readers_shards(client).await?);
    tokio::spawn(finding);
    let tls: feed::client::CurrentTls = Arc::new(move || Arc::clone(&config));
    let (following, reading) = Reader {
        leaders,
        tls,
        server_name: ServerName::try_from(FEED_SERVER)?,
    }
    .subscribe();
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
        recovered(client).await?;
        let fresh = |now: &Subscription| now.stale_since().is_none();
        drop(
            timeout(PATIENCE, following.wait_for(fresh))
                .await
                .context("both shards are received")??,
        );
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
    let leader = leader_of(client, SHARDS[shard]).await?;
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

/// Both shards notice a leader without shards, such as upstream's recommender.
async fn an_undivided_leader_is_noticed(client: &Client) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    eventually("both shards notice an undivided leader", PATIENCE, async || {
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
            let conflict = metric(&leader_of(client, shard).await?, "vpa_recommender_shard_conflict").await?;
            ensure!(conflict > 0.0, "{shard} sees none");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn two_shards_do_the_work_of_one_and_fail_apart() -> Result<()> {
    let sandbox = another("shards").await?;
    let client = sandbox.client().await?;
    deploy(&sandbox, "tests/e2e/recommender/shards").await?;
    let mut fixtures = Vec::new();
    for name in NAMESPACES.concat() {
        fixtures.push(fixture_in(&client, name).await?);
    }
    all_is_done_once(&client, &fixtures).await?;
    let mut following = follow(&sandbox, &client).await?;
    let all =
        |now: &Subscription| now.stale_since().is_none() && terms(now).len() == fixtures.len();
    drop(
        timeout(PATIENCE, following.wait_for(all))
            .await
            .context("both shards are received")??,
    );
    for shard in [0, 1] {
        kill_the_leader(&client, shard, &mut following).await?;
    }
    all_is_done_once(&client, &fixtures).await?;
    an_undivided_leader_is_noticed(&client).await?;
    sandbox.down().await
}

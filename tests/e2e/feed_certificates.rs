//! The certificates of the feed, which the recommender issues for all programs without any
//! preparation, and which are replaced while values change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{RECOMMENDER, SUITE, deploy, system, total};
use e2e::{
    Authority, FEED_SERVER, Issued, Namespace, PATIENCE, another, eventually, feed_reader,
    requests, target, workload,
};
use feed::client::CurrentTls;
use feed::proto::WatchRecommendationsRequest;
use feed::{Reader, Subscription};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use kube::{Api, Client};
use runtime::follow_leader;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

const AUTHORITY: &str = "plimsoll-feed-certificates";
const PROGRAMS: [&str; 4] = ["recommender", "updater", "webhook", "adapter"];
/// Replicas of updater and webhook.
const READERS: f64 = 4.0;
/// A new value reaches readers within this time; a lost connection would cost more.
const LIMIT: Duration = Duration::from_secs(20);

async fn entries(client: &Client, program: &str) -> Result<BTreeMap<String, String>> {
    let secrets: Api<Secret> = system(client).typed();
    let secret = secrets.get(&format!("plimsoll-{program}-feed-tls")).await?;
    let data = secret.data.unwrap_or_default().into_iter();
    data.map(|(name, bytes)| Ok((name, String::from_utf8(bytes.0)?)))
        .collect()
}

pub(crate) async fn subscribe(client: &Client) -> Result<watch::Receiver<Subscription>> {
    let of = entries(client, "updater").await?;
    let config = feed_reader(&of["ca.crt"], &of["tls.crt"], &of["tls.key"])?;
    let (found, leader) = watch::channel(None);
    let leases: Api<Lease> = Api::namespaced(client.clone(), "plimsoll-system");
    tokio::spawn(follow_leader(leases, "vpa-recommender-lease", found));
    let reader = Reader {
        leaders: vec![leader],
        tls: Arc::new(move || Arc::clone(&config)),
        server_name: ServerName::try_from(FEED_SERVER)?,
    };
    let (values, reading) = reader.subscribe();
    tokio::spawn(reading);
    Ok(values)
}

/// A VPA object of which each change is published with its generation.
struct Changing<'a> {
    own: &'a Namespace,
    uid: String,
    millicores: u32,
}

impl Changing<'_> {
    /// Changes the object, and waits until all readers have its generation.
    async fn change(&mut self, readers: &mut [watch::Receiver<Subscription>]) -> Result<()> {
        self.millicores += 1;
        let minimum = json!({"cpu": format!("{}m", self.millicores)});
        let policies = json!([{"containerName": "*", "minAllowed": minimum}]);
        let spec = json!({"spec": {"resourcePolicy": {"containerPolicies": policies}}});
        self.own.patch::<Vpa>("web", spec).await?;
        let vpa = self.own.get::<Vpa>("web").await?;
        let generation = vpa["metadata"]["generation"].as_i64();
        let has_it = |values: &Subscription| {
            let received = values.get(&self.uid);
            received.is_some_and(|it| Some(it.value.observed_generation) >= generation)
        };
        for reader in readers {
            let is_there = timeout(LIMIT, reader.wait_for(has_it)).await;
            let is_there = is_there.is_ok_and(|open| open.is_ok());
            let last = reader.borrow().get(&self.uid).cloned();
            ensure!(is_there, "no generation {generation:?}: {last:?}");
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_issued_and_replaced_without_a_lost_value() -> Result<()> {
    let sandbox = another("feed").await?;
    let client = sandbox.client().await?;
    let own = Namespace::new(client.clone(), "feed").await?;
    deploy(&sandbox, "tests/e2e/applied", SUITE).await?;
    let resources = requests("1", "1Gi");
    own.create::<ReplicaSet>(workload("web", 1, &resources, &json!({})))
        .await?;
    let spec =
        json!({"targetRef": target("ReplicaSet", "web"), "updatePolicy": {"updateMode": "Off"}});
    let vpa = own.make::<Vpa>("web", spec).await?;
    let open = async || {
        let open = total(&client, RECOMMENDER, "plimsoll_feed_readers").await?;
        ensure!(open >= READERS, "{open} streams");
        Ok(())
    };
    eventually("updaters and webhooks read the feed", open).await?;
    let mut changing = Changing {
        own: &own,
        uid: vpa["metadata"]["uid"].as_str().context("a UID")?.to_owned(),
        millicores: 100,
    };
    let mut readers = vec![subscribe(&client).await?];
    changing.change(&mut readers).await?;

    check_stranger(&client).await?;

    let secrets: Api<Secret> = system(&client).typed();
    secrets.delete(AUTHORITY, &DeleteParams::default()).await?;
    let certificates = |bundle: &str| bundle.matches("BEGIN CERTIFICATE").count();
    eventually("all programs trust the old and the new CA", async || {
        for program in PROGRAMS {
            let trusted = certificates(&entries(&client, program).await?["ca.crt"]);
            ensure!(trusted == 2, "{program} trusts {trusted}");
        }
        Ok(())
    })
    .await?;
    changing.change(&mut readers).await?;
    for program in PROGRAMS {
        let before = entries(&client, program).await?;
        let lost = json!({"data": {"tls.crt": null}});
        let name = format!("plimsoll-{program}-feed-tls");
        system(&client).patch::<Secret>(&name, lost).await?;
        eventually("the certificate is replaced", async || {
            let now = entries(&client, program).await?;
            let is_new = now
                .get("tls.crt")
                .is_some_and(|it| !it.is_empty() && *it != before["tls.crt"]);
            ensure!(is_new, "{program} has the old certificate");
            Ok(())
        })
        .await?;
        // Old streams go on, and new ones use the new certificate.
        readers.push(subscribe(&client).await?);
        for _ in 0..3 {
            changing.change(&mut readers).await?;
        }
    }
    eventually("updaters and webhooks read the feed", open).await?;
    sandbox.down().await
}

/// A client with the right name and a certificate of another CA reads nothing.
async fn check_stranger(client: &Client) -> Result<()> {
    let of = entries(client, "updater").await?;
    let own = feed_reader(&of["ca.crt"], &of["tls.crt"], &of["tls.key"])?;
    let Issued { certificate, key } = Authority::new("feed")?.issue("plimsoll-updater")?;
    let strange = feed_reader(&of["ca.crt"], &certificate.pem(), &key.serialize_pem())?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), "plimsoll-system");
    let (found, mut leader) = watch::channel(None);
    tokio::spawn(follow_leader(leases, "vpa-recommender-lease", found));
    let address = timeout(PATIENCE, leader.wait_for(Option::is_some)).await??;
    let address = address.clone().context("a leader")?;
    let watch = async |config: Arc<ClientConfig>| {
        let tls: CurrentTls = Arc::new(move || Arc::clone(&config));
        let server = ServerName::try_from(FEED_SERVER)?;
        let mut client = feed::client::client(&address, &tls, &server).await?;
        let request = WatchRecommendationsRequest {};
        Ok::<_, anyhow::Error>(client.watch_recommendations(request).await?)
    };
    let read = timeout(PATIENCE, watch(own)).await?;
    read.context("the updater's certificate")?;
    let read = timeout(PATIENCE, watch(strange)).await?;
    ensure!(read.is_err(), "a strange client was let in");
    Ok(())
}

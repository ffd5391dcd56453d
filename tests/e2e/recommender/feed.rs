//! The recommender's feed, as another service of the suite reads it: the leader found by its Lease,
//! mutual TLS with the Secret of `deploy/`, and no gap and no older value when the leader is
//! killed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::prediction::TimeSeriesPrediction;
use e2e::{FEED_SERVER, eventually, feed_certificates};
use feed::proto::ExplainRequest;
use feed::{Explained, Forecast, Reader, Subscription};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Resource as _, ResourceExt as _};
use model::ResourceName;
use runtime::follow_leader;
use rustls_pki_types::ServerName;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

use super::CPU_OF_240M;
use super::failures::{CPU_OF_680M, Turn, kill};
use super::fixture::{Fixture, PATIENCE};

/// From the moment at which the Lease names a new leader until its data is there.
const TAKEOVER: Duration = Duration::from_secs(5);

/// The CPU that the feed asks for, as a quantity, with the term that it is from.
fn target(following: &Subscription, uid: &str) -> Option<(String, u64)> {
    let received = following.get(uid)?;
    let container = received.value.recommendation.containers.first()?;
    Some((
        container.target.get(&ResourceName::Cpu)?.to_string(),
        received.term,
    ))
}

/// Waits until the feed is up to date and recommends this CPU; returns the term. Until then a known
/// object never disappears, and its term never falls.
async fn until(
    following: &mut watch::Receiver<Subscription>,
    uid: &str,
    cpu: &str,
    later_than: u64,
) -> Result<u64> {
    let mut last = target(&following.borrow(), uid);
    let mut complaint = None;
    let is_so = |now: &Subscription| {
        let received = target(now, uid);
        if received.as_ref().map(|(_, term)| *term) < last.as_ref().map(|(_, term)| *term) {
            complaint = Some(format!("{last:?}, then {received:?}"));
        }
        last = received;
        let as_expected = last
            .as_ref()
            .is_some_and(|(received, term)| received == cpu && *term > later_than);
        complaint.is_some() || (now.stale_since().is_none() && as_expected)
    };
    let waited = timeout(PATIENCE, following.wait_for(is_so))
        .await
        .is_ok_and(|closed| closed.is_ok());
    ensure!(
        waited,
        "the feed asks for {cpu} in a term after {later_than}; the last was {last:?}"
    );
    ensure!(complaint.is_none(), "a value was lost: {complaint:?}");
    Ok(last.context("it was there")?.1)
}

/// A prediction of which the recommender knows no history, since there is no Prometheus here.
async fn predict(fixture: &Fixture) -> Result<String> {
    let cpu = json!({"resourceIdentifier": "resource.cpu", "type": "ResourceQuery", "resourceQuery": "cpu"});
    let object = json!({
        "apiVersion": TimeSeriesPrediction::api_version(&()), "kind": TimeSeriesPrediction::kind(&()),
        "metadata": {"name": "fed", "annotations": {"plimsoll.dev/recommender": "e2e"}},
        "spec": {
            "predictionMetrics": [cpu],
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "fed"},
            "predictionWindowSeconds": 3600,
        },
    });
    let resource = ApiResource::erase::<TimeSeriesPrediction>(&());
    let api: Api<DynamicObject> =
        Api::namespaced_with(fixture.client.clone(), &fixture.namespace, &resource);
    api.create(&PostParams::default(), &serde_json::from_value(object)?)
        .await?
        .uid()
        .context("a uid")
}

/// Waits until the feed says that there is too little history, in a later term.
async fn until_young(
    forecasts: &mut watch::Receiver<Subscription<Forecast>>,
    uid: &str,
    later_than: u64,
) -> Result<()> {
    let mut last = None;
    let is_so = |now: &Subscription<Forecast>| {
        let received = now.get(uid);
        last = received.and_then(|received| {
            Some((
                received.value.metric("resource.cpu")?.clone(),
                received.term,
            ))
        });
        let said = last.as_ref().filter(|(_, term)| *term > later_than);
        now.stale_since().is_none()
            && said.is_some_and(|(metric, _)| {
                !metric.is_ready && metric.reason.starts_with("too little history")
            })
    };
    let waited = timeout(PATIENCE, forecasts.wait_for(is_so))
        .await
        .is_ok_and(|closed| closed.is_ok());
    ensure!(
        waited,
        "the feed says that there is too little history; the last was {last:?}"
    );
    Ok(())
}

#[tokio::test]
async fn readers_of_the_feed_follow_a_leader_that_is_killed_without_a_gap() -> Result<()> {
    let turn = Turn::take("fed").await?;
    let client = turn.fixture.client.clone();
    let uid = turn.fixture.object("fed").await?["metadata"]["uid"]
        .as_str()
        .context("a uid")?
        .to_owned();
    let config = feed_certificates(&client).await?;
    let tls: feed::client::CurrentTls = Arc::new(move || Arc::clone(&config));
    let name = ServerName::try_from(FEED_SERVER)?;

    let (found, mut leader) = watch::channel(None);
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    tokio::spawn(follow_leader(leases, "vpa-recommender-lease", found));
    let reader = Reader {
        leaders: vec![leader.clone()],
        tls: Arc::clone(&tls),
        server_name: name.clone(),
    };
    let (mut forecasts, reading) = reader.clone().subscribe::<Forecast>();
    tokio::spawn(reading);
    let (mut following, reading) = reader.subscribe();
    tokio::spawn(reading);
    let predicted = predict(&turn.fixture).await?;
    until_young(&mut forecasts, &predicted, 0).await?;
    let first = until(&mut following, &uid, CPU_OF_240M, 0).await?;

    let address = leader
        .borrow_and_update()
        .clone()
        .context("the Lease tells the leader's address")?;
    let request = ExplainRequest {
        namespace: turn.fixture.namespace.clone(),
        name: "fed".to_owned(),
        container: "app".to_owned(),
    };
    let explained = eventually("the leader explains", PATIENCE, async || {
        let mut single = feed::client::client(&address, &tls, &name).await?;
        Ok(Explained::try_from(
            single.explain(request.clone()).await?.into_inner(),
        )?)
    })
    .await?;
    assert_eq!(explained.uid, uid);
    let cpu = explained
        .explanation
        .numbers
        .first()
        .context("an explanation")?;
    assert_eq!(
        (cpu.capped.to_string().as_str(), cpu.with_margin),
        (CPU_OF_240M, 296)
    );

    kill(&client, &turn.writes).await?;
    let killed = Instant::now();
    timeout(
        PATIENCE,
        leader.wait_for(|now| now.as_ref().is_some_and(|now| *now != address)),
    )
    .await??;
    let taken = Instant::now();
    let second = until(&mut following, &uid, CPU_OF_240M, first).await?;
    let behind = taken.elapsed();
    println!(
        "the Lease moved {:.1} s after the kill; readers followed in {behind:.3?}",
        (taken - killed).as_secs_f64()
    );
    ensure!(behind < TAKEOVER, "{behind:?} after the Lease moved");

    until_young(&mut forecasts, &predicted, second - 1).await?;
    turn.use_from_now_on("680m", "300Mi").await?;
    until(&mut following, &uid, CPU_OF_680M, second - 1).await?;
    Ok(())
}

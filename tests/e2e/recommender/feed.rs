//! The recommender's feed, as another service of the suite reads it: the leader found by its Lease,
//! mutual TLS with the Secret of `deploy/`, and no gap and no older value when the leader is
//! killed.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::prediction::TimeSeriesPrediction as Prediction;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{PATIENCE, target};
use feed::{Forecast, Subscription};
use model::ResourceName;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::CPU_OF_240M;
use super::failures::{CPU_OF_680M, Turn, kill};
use super::fixture::{Fixture, reader};

/// From the moment at which the Lease names a new leader until its data is there.
const TAKEOVER: Duration = Duration::from_secs(5);

/// The CPU that the feed asks for, as a quantity, with the term that it is from.
fn cpu_target(following: &Subscription, uid: &str) -> Option<(String, u64)> {
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
    let mut last = cpu_target(&following.borrow(), uid);
    let mut complaint = None;
    let is_so = |now: &Subscription| {
        let received = cpu_target(now, uid);
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
    let spec = json!({
        "predictionMetrics": [cpu],
        "targetRef": target("Deployment", "fed"),
        "predictionWindowSeconds": 3600,
    });
    uid(&fixture.own::<Prediction>("fed", spec).await?)
}

fn uid(object: &Value) -> Result<String> {
    let uid = object["metadata"]["uid"].as_str();
    Ok(uid.context("a uid")?.to_owned())
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
    let uid = uid(&turn.fixture.get::<Vpa>("fed").await?)?;
    let reader = reader(&client).await?;
    let (mut forecasts, reading) = reader.clone().subscribe::<Forecast>();
    tokio::spawn(reading);
    let (mut following, reading) = reader.clone().subscribe();
    tokio::spawn(reading);
    let predicted = predict(&turn.fixture).await?;
    until_young(&mut forecasts, &predicted, 0).await?;
    let first = until(&mut following, &uid, CPU_OF_240M, 0).await?;

    let mut leader = reader.leaders[0].clone();
    let address = leader.borrow_and_update().clone();
    let address = address.context("the Lease tells the leader's address")?;

    kill(&client, &turn.writes).await?;
    let killed = Instant::now();
    let is_other = |now: &Option<String>| now.as_ref().is_some_and(|now| *now != address);
    timeout(PATIENCE, leader.wait_for(is_other)).await??;
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

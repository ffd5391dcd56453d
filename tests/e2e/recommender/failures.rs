//! The recommender without its dependencies. These tests break their control plane, so they share
//! one of their own, one at a time.

use anyhow::{Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{
    RECOMMENDER, Replica, all_ready, leader, metric, process, replicas, restarts,
};
use e2e::{Signal, Turns, another, eventually, is_true, signal, usage};
use kube::Client;
use sandbox::{Component, Sandbox};
use serde_json::Value;

use super::fixture::{Fixture, first_container};
use super::{CPU_OF_240M, deploy};

/// Duration of the API server's outage.
const OUTAGE_SECONDS: f64 = 30.0;
/// 680m lies in the bucket of CPU from 664m to 707m, and a margin of 15 % makes that 813m.
pub(crate) const CPU_OF_680M: &str = "813m";
/// Rounds of the recommender without a write after which there will be none.
const SETTLED: f64 = 4.0;
const ROUNDS: &str = "vpa_recommender_execution_latency_seconds_count{step=\"total\"}";
const SOURCE_AGE: &str = "vpa_recommender_metrics_source_stale_seconds";
const WATCH_AGE: &str = "vpa_recommender_watch_stale_seconds";

/// One workload for each of these tests. All are made at once, so that they wait for metrics-server
/// together.
const WORKLOADS: [&str; 5] = ["outage", "unmeasured", "killed", "crowd", "fed"];

/// The sandbox of these tests while it is one test's turn. Its workload has its recommendation.
pub(crate) struct Turn {
    own: e2e::Turn<Own>,
    pub(crate) fixture: Fixture,
    workload: &'static str,
    pub(crate) writes: Replica,
}

/// The sandbox, and the namespace of the workloads.
struct Own {
    sandbox: Sandbox,
    namespace: String,
}

impl Own {
    async fn make() -> Result<Self> {
        let sandbox = another("failures").await?;
        deploy(&sandbox).await?;
        let fixture = Fixture::new(sandbox.client().await?, "shop").await?;
        for workload in WORKLOADS {
            fixture.deploy(workload, 2, "240m", "300Mi").await?;
            fixture.autoscale(workload, workload).await?;
        }
        let namespace = fixture.namespace.clone();
        Ok(Self { sandbox, namespace })
    }
}

impl Turn {
    pub(crate) async fn take(workload: &'static str) -> Result<Self> {
        static OWN: Turns<Own> = Turns::new();
        let own = OWN.alone(Own::make).await?;
        let fixture = Fixture::of(own.sandbox.client().await?, &own.namespace);
        all_ready(&fixture.client, RECOMMENDER.labels).await?;
        fixture.targets(workload, "cpu", CPU_OF_240M).await?;
        let writes = leader(&fixture.client, RECOMMENDER).await?;
        Ok(Self {
            own,
            fixture,
            workload,
            writes,
        })
    }

    pub(crate) async fn use_from_now_on(&self, cpu: &str, memory: &str) -> Result<()> {
        let usage = usage(cpu, memory);
        self.fixture.annotate_pods(self.workload, &usage).await?;
        Ok(())
    }

    /// The pods use more from now on; the recommender notices if it works.
    async fn expect_to_follow_usage(&self) -> Result<()> {
        self.use_from_now_on("680m", "300Mi").await?;
        self.fixture
            .targets(self.workload, "cpu", CPU_OF_680M)
            .await
            .map(drop)
    }

    /// Waits until what was read last is worked into all objects: some rounds go by without a
    /// write.
    async fn settled(&self) -> Result<()> {
        let mut seen = (-1.0, 0.0);
        eventually("nothing is written any more", async || {
            let writes = metric(&self.writes, "vpa_recommender_status_writes_total").await?;
            let rounds = metric(&self.writes, ROUNDS).await?;
            if writes > seen.0 {
                seen = (writes, rounds);
            }
            ensure!(
                rounds >= seen.1 + SETTLED,
                "{writes} writes, the last one {} rounds ago",
                rounds - seen.1
            );
            Ok(())
        })
        .await
    }

    /// Waits until the object reports whether usage is measured.
    async fn await_source_stale(&self, expected: bool) -> Result<()> {
        let what = format!("it says that its source is stale: {expected}");
        let says_so = |object: &Value| is_true(&object["status"], "SourceStale") == expected;
        self.fixture
            .when::<Vpa>(self.workload, &what, says_so)
            .await
            .map(drop)
    }

    async fn recommendation(&self) -> Result<Value> {
        let object = self.fixture.get::<Vpa>(self.workload).await?;
        Ok(object["status"]["recommendation"].clone())
    }
}

/// Waits until a replica's metric is so.
async fn await_metric(replica: &Replica, name: &str, is_so: impl Fn(f64) -> bool) -> Result<()> {
    eventually(&format!("{name} is as it should be"), async || {
        let value = metric(replica, name).await?;
        ensure!(is_so(value), "it is {value}");
        Ok(())
    })
    .await
}

async fn run(client: &Client, replica: &Replica) -> Result<(u32, i32)> {
    let process = process(client, replica).await?;
    Ok((process, restarts(client, replica).await?))
}

pub(crate) async fn kill(client: &Client, replica: &Replica) -> Result<()> {
    signal(process(client, replica).await?, Signal::KILL)
}

#[tokio::test]
async fn an_api_server_that_comes_back_after_half_a_minute_finds_the_recommender_at_work()
-> Result<()> {
    let turn = Turn::take("outage").await?;
    let client = &turn.fixture.client;
    let all = replicas(client, RECOMMENDER).await?;
    let mut before = Vec::new();
    for replica in &all {
        before.push(run(client, replica).await?);
    }
    turn.own.sandbox.stop(Component::KubeApiserver).await?;
    for replica in &all {
        // The sum over ten watches.
        let long = 10.0 * OUTAGE_SECONDS;
        await_metric(replica, WATCH_AGE, |sum| sum >= long).await?;
    }
    turn.own.sandbox.start(Component::KubeApiserver).await?;
    for replica in &all {
        await_metric(replica, WATCH_AGE, |sum| sum == 0.0).await?;
    }
    turn.expect_to_follow_usage().await?;
    for (replica, before) in all.iter().zip(before) {
        let after = run(client, replica).await?;
        assert_eq!(after, before, "{} went on in the same process", replica.pod);
    }
    Ok(())
}

#[tokio::test]
async fn recommendations_freeze_without_usage_and_a_metric_shows_it() -> Result<()> {
    let turn = Turn::take("unmeasured").await?;
    turn.own.sandbox.stop(Component::MetricsServer).await?;
    await_metric(&turn.writes, SOURCE_AGE, |age| age > 0.0).await?;
    turn.settled().await?;
    let frozen = turn.recommendation().await?;
    turn.use_from_now_on("0", "0").await?;
    let age_before = metric(&turn.writes, SOURCE_AGE).await?;
    await_metric(&turn.writes, SOURCE_AGE, |age| age > age_before + 10.0).await?;
    assert_eq!(
        turn.recommendation().await?,
        frozen,
        "ten failed rounds changed nothing"
    );
    turn.await_source_stale(true).await?;
    turn.own.sandbox.start(Component::MetricsServer).await?;
    await_metric(&turn.writes, SOURCE_AGE, |age| age == 0.0).await?;
    turn.expect_to_follow_usage().await?;
    turn.await_source_stale(false).await
}

#[tokio::test]
async fn a_recommender_that_is_killed_starts_again_and_loses_no_recommendation() -> Result<()> {
    let turn = Turn::take("killed").await?;
    let client = &turn.fixture.client;
    let before = restarts(client, &turn.writes).await?;
    kill(client, &turn.writes).await?;
    eventually("its container is started again", async || {
        // Whatever happens meanwhile, what was recommended stays.
        let object = turn.fixture.get::<Vpa>(turn.workload).await?;
        assert_eq!(first_container(&object)["target"]["cpu"], CPU_OF_240M);
        let now = restarts(client, &turn.writes).await?;
        ensure!(now > before, "{now} restarts");
        Ok(())
    })
    .await?;
    let synced = "vpa_recommender_watch_synced";
    await_metric(&turn.writes, synced, |synced| synced > 9.5).await?;
    leader(client, RECOMMENDER).await?;
    turn.expect_to_follow_usage().await
}

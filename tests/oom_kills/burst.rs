//! No kill is lost: many at once, each of which counts exactly once and raises its object's target, and
//! one that no recommender was there to see.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use e2e::deployment::{RECOMMENDER, Replica, process, replicas, scrape, sum};
use e2e::{Signal, eventually, in_parallel, signal};

use crate::fixture::Fixture;
use crate::target_sources::Listening;

const KILLS: usize = 200;
/// Requests to the API server at the same time.
const CONCURRENCY: usize = 50;
const REQUESTED_MIB: u64 = 400;

async fn counted(replica: &Replica, result: &str) -> Result<u64> {
    let series = format!("vpa_recommender_oom_kills_total{{result=\"{result}\"}}");
    Ok(sum(&scrape(replica).await?, &series).unwrap_or(0.0) as u64)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hundred_kills_within_a_second_each_counts_exactly_once() -> Result<()> {
    let fixture = Fixture::take("burst").await?;
    let names: Vec<String> = (0..KILLS).map(|number| format!("web-{number}")).collect();
    fixture.populate(&names, REQUESTED_MIB).await?;
    let listening = Listening::to(&fixture, &names).await?;
    let replicas = replicas(&fixture.client, RECOMMENDER).await?;
    let mut before = Vec::new();
    for replica in &replicas {
        before.push([
            counted(replica, "accepted").await?,
            counted(replica, "refused").await?,
        ]);
    }
    let targets: Vec<Option<i64>> = names.iter().map(|name| listening.status(name)).collect();

    let pods = fixture.pods().await?;
    // A slow machine takes longer than a second for all these kills. Both replicas are stopped
    // meanwhile and see all of them at once.
    let mut processes = Vec::new();
    for replica in &replicas {
        processes.push(process(&fixture.client, replica).await?);
    }
    processes
        .iter()
        .try_for_each(|process| signal(*process, Signal::STOP))?;
    let kills = pods.iter().map(|pod| fixture.kill(pod));
    let killed = in_parallel(CONCURRENCY, kills).await;
    let started = Instant::now();
    processes
        .iter()
        .try_for_each(|process| signal(*process, Signal::CONT))?;
    killed?;
    for (name, target) in names.iter().zip(targets) {
        listening.status_above(name, target.unwrap_or(0)).await?;
        listening.feed_above(name, target.unwrap_or(0)).await?;
    }
    println!(
        "{KILLS} kills at once: all targets were there after {:.0} ms",
        started.elapsed().as_secs_f64() * 1e3
    );
    // Each container runs again, so that nothing more can be said about its end.
    for name in &names {
        fixture.running(name).await?;
    }
    for (replica, [accepted, refused]) in replicas.iter().zip(before) {
        eventually("each kill was counted, and none twice", async || {
            let now = [
                counted(replica, "accepted").await?,
                counted(replica, "refused").await?,
            ];
            let expected = [accepted + KILLS as u64, refused];
            ensure!(
                now == expected,
                "{}: {now:?} and not {expected:?} accepted and refused",
                replica.pod
            );
            Ok(())
        })
        .await?;
        ensure!(
            counted(replica, "dropped").await? == 0,
            "{} dropped some",
            replica.pod
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_before_the_start_of_the_recommender_counts() -> Result<()> {
    let fixture = Fixture::take("before").await?;
    let names = ["web".to_owned()];
    fixture.populate(&names, 300).await?;
    let listening = Listening::to(&fixture, &names).await?;
    let before = listening.status("web").context("it has a target")?;
    let mut processes = Vec::new();
    for replica in replicas(&fixture.client, RECOMMENDER).await? {
        processes.push(process(&fixture.client, &replica).await?);
    }
    // They see nothing any more, and end without having seen anything.
    processes
        .iter()
        .try_for_each(|process| signal(*process, Signal::STOP))?;
    let killed = fixture.kill(&fixture.running("web").await?).await;
    let runs_again = fixture.running("web").await;
    processes
        .iter()
        .try_for_each(|process| signal(*process, Signal::KILL))?;
    killed?;
    let last = runs_again?
        .status
        .and_then(|status| status.container_statuses?.pop()?.last_state?.terminated);
    assert_eq!(
        last.and_then(|end| end.reason).as_deref(),
        Some("OOMKilled")
    );
    listening.status_above("web", before).await?;
    listening.feed_above("web", before).await.map(drop)
}

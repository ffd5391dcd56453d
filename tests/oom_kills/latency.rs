//! Time from the OOM kill in a pod's status to the new target, one kill after the other.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::benchmark::checks_latency;

use crate::fixture::Fixture;
use crate::target_sources::Listening;

const WORKLOADS: usize = 10;
const KILLS: usize = 50;
/// Kills that are not measured: connections are opened, and code runs for the first time.
const WARM_UP: usize = 10;
/// Bound of the 99th percentile.
const MOST: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_becomes_a_new_target_in_the_status_and_on_the_feed() -> Result<()> {
    let fixture = Fixture::take("latency").await?;
    let names: Vec<String> = (0..WORKLOADS)
        .map(|number| format!("web-{number}"))
        .collect();
    fixture.populate(&names, 100).await?;
    let listening = Listening::to(&fixture, &names).await?;
    let mut requested_mib = 300;
    let (mut statuses, mut feeds) = (Vec::new(), Vec::new());
    for number in 0..WARM_UP + measured(KILLS) {
        let name = &names[number % WORKLOADS];
        let pod = fixture.resized(name, requested_mib).await?;
        let before = listening.status(name).context("it has one")?;
        let killed = Instant::now();
        let (kill, status, feed) = tokio::join!(
            fixture.kill(&pod),
            listening.status_above(name, before),
            listening.feed_above(name, before),
        );
        kill?;
        let (status, feed) = (status?, feed?);
        if number >= WARM_UP {
            statuses.push(status - killed);
            feeds.push(feed - killed);
        }
        // Each kill of a workload asks for a quarter more than the one before.
        if number % WORKLOADS == WORKLOADS - 1 {
            requested_mib = requested_mib * 5 / 4;
        }
    }
    check("status", statuses, MOST)?;
    check("feed", feeds, MOST)
}

/// Number of kills to measure: none where latencies are not checked.
pub(crate) fn measured(kills: usize) -> usize {
    if checks_latency() { kills } else { 0 }
}

/// Prints the distribution of latencies and checks the bound of its 99th percentile.
pub(crate) fn check(place: &str, latencies: Vec<Duration>, most: Duration) -> Result<()> {
    if latencies.is_empty() {
        return Ok(());
    }
    let found = distribution(place, latencies);
    ensure!(
        found < most,
        "kill to {place}: the 99th percentile is {found:?}, not below {most:?}"
    );
    Ok(())
}

/// Prints the distribution and returns its 99th percentile: the least latency that 99 % do not
/// exceed.
fn distribution(place: &str, mut latencies: Vec<Duration>) -> Duration {
    latencies.sort();
    let percentile =
        |percent: usize| latencies[(latencies.len() * percent).div_ceil(100).max(1) - 1];
    let columns = [
        ("min", 0),
        ("p50", 50),
        ("p90", 90),
        ("p99", 99),
        ("max", 100),
    ];
    let columns = columns
        .map(|(name, percent)| format!("{name} {:.1} ms", percentile(percent).as_secs_f64() * 1e3));
    println!(
        "kill to {place}, {} kills: {}",
        latencies.len(),
        columns.join(", ")
    );
    percentile(99)
}

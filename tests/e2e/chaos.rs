//! The whole suite while its parts are killed, paused, cut off, slowed down and have wrong clocks, in
//! random order and under load.
//!
//! Each round begins one to three faults at once, ends them, and waits until the suite has sized the
//! pods of a new workload, the adapter answers and new pods are placed. The invariants hold all the
//! time: no eviction beyond a budget, no refused pod, no lost checkpoint, no answer to a caller
//! without rights, and no wrong answer to one with rights.
//!
//! `PLIMSOLL_CHAOS_ROUNDS` sets the number of rounds, `PLIMSOLL_CHAOS_SEED` repeats their faults.

mod checkpoint_watch;
mod faults;
mod fixture;
mod load;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use e2e::benchmark::number;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use faults::Fault;
use fixture::Suite;

/// Rounds in `make test`.
const ROUNDS: u64 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_keeps_its_promises_while_its_parts_fail() -> Result<()> {
    let rounds = number("PLIMSOLL_CHAOS_ROUNDS")?.unwrap_or(ROUNDS);
    let seed = number("PLIMSOLL_CHAOS_SEED")?.unwrap_or_else(rand::random);
    println!("PLIMSOLL_CHAOS_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let suite = Suite::start().await?;
    let load = load::Load::start(&suite).await?;
    suite.converges(0).await?;

    let mut recoveries = Vec::new();
    for round in 1..=rounds {
        let faults = Fault::some(&mut rng);
        println!("round {round}: {faults:?}");
        let context = || format!("round {round} of seed {seed}: {faults:?}");
        suite.add_probe(round).await.with_context(context)?;
        Fault::play(&faults, &suite).await.with_context(context)?;
        let ended = Instant::now();
        suite.converges(round).await.with_context(context)?;
        recoveries.push(ended.elapsed());
        load.check().await.with_context(context)?;
    }
    println!("{rounds} rounds; {}", load.summary().await?);
    println!("{}", summary(recoveries));
    suite.end().await
}

/// Sentence about the times from the end of the faults to convergence.
fn summary(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: usize| times.get(times.len() * share / 100);
    let [median, worst] =
        [at(50), times.last()].map(|time| time.map_or(0.0, Duration::as_secs_f64));
    format!("converged after {median:.1} s in the median, {worst:.1} s at most")
}

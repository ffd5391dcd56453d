//! The webhook under load, over real TLS on the loopback interface: one core answers, another one asks. Each review is of a pod
//! that one of 10,000 VPA objects sizes.
//!
//! First as many reviews as the server can take, on all connections without a pause; then half as many, each due at random and
//! counted from when it was due. The kernel's word on how long the two threads waited for their cores tells a slow server from
//! a busy machine: who waits for more than half a percent of the time waits in pieces of milliseconds, and that is what the 99th
//! percentile shows then.

mod arrivals;
mod asking;
mod cluster;
mod connection;
mod cores;
mod latencies;
mod server;

use std::time::Duration;

use anyhow::{Result, ensure};

use asking::{Asked, Asker};
use cores::{Thread, Used, stay_on};
use server::Server;

/// The goal.
const P99_MS: f64 = 1.0;
const WARM_UP: Duration = Duration::from_secs(2);
const SATURATION: Duration = Duration::from_secs(8);
const HALF_LOAD: Duration = Duration::from_secs(20);

fn main() -> Result<()> {
    runtime::tls::install_crypto_provider();
    let server = Server::start()?;
    stay_on(1)?;
    let own = Thread::current()?;
    let mut asker = Asker::new(&server)?;
    asker.as_fast_as_possible(WARM_UP)?;

    let (before, resident) = (server.thread.used()?, resident_bytes()?);
    let mut most = asker.as_fast_as_possible(SATURATION)?;
    let busy = server.thread.used_since(before)?.ran.as_secs_f64();
    let per_second = most.latencies.count() as f64 / SATURATION.as_secs_f64();
    let per_core = most.latencies.count() as f64 / busy;
    println!("10,000 VPA objects; {} bytes per review", asker.review_bytes());
    println!("as fast as possible: {per_second:.0} reviews/s, {}", most.latencies.summary());
    println!("per core of the server: {per_core:.0} reviews/s, {:.0} us each", 1e6 / per_core);

    let (before, own_before) = (server.thread.used()?, own.used()?);
    let mut half = asker.at_rate(per_core / 2.0, HALF_LOAD)?;
    let (used, own_used) = (server.thread.used_since(before)?, own.used_since(own_before)?);
    report(&mut half, used, own_used);
    let grown = resident_bytes()? as f64 - resident as f64;
    println!("memory: {:.0} MiB, {:+.1} MiB over the run", resident as f64 / 1_048_576.0, grown / 1_048_576.0);
    ensure!(half.unchanged == 0, "at half load, {} pods were left as they were", half.unchanged);
    ensure!(
        half.latencies.percentile_ms(0.99) < P99_MS,
        "the 99th percentile is above {P99_MS} ms; the server waited {:.1} % of the time for its core",
        share(used.waited)
    );
    Ok(())
}

fn report(half: &mut Asked, server: Used, asker: Used) {
    let seconds = HALF_LOAD.as_secs_f64();
    println!("half of that: {:.0} reviews/s, {}", half.latencies.count() as f64 / seconds, half.latencies.summary());
    println!("  sent late: {}; {} found no connection free", half.late.summary(), half.crowded);
    println!("  {} pods left as they were", half.unchanged);
    println!(
        "  the server ran {:.1} % of the time and waited {:.1} % for its core",
        share(server.ran),
        share(server.waited)
    );
    println!("  who asks ran {:.1} % and waited {:.1} %", share(asker.ran), share(asker.waited));
}

/// Of the time at half load, in percent.
fn share(time: Duration) -> f64 {
    100.0 * time.as_secs_f64() / HALF_LOAD.as_secs_f64()
}

fn resident_bytes() -> Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    Ok(statm.split(' ').nth(1).unwrap_or_default().parse::<u64>()? * 4096)
}

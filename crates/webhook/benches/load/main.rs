//! The webhook under load, over real TLS on the loopback interface: one core answers, another one asks. Each review is of a pod
//! that one of 10,000 VPA objects sizes.
//!
//! First as many reviews as the server can take, on all connections without a pause; then half as many, each at its time. A
//! review that has to wait for its connection counts from when it should have been sent.

mod asking;
mod cluster;
mod server;

use std::time::Duration;

use anyhow::{Result, ensure};

use asking::Asker;
use server::Server;

/// The goal.
const P99_MS: f64 = 1.0;
const WARM_UP: Duration = Duration::from_secs(2);
const SATURATION: Duration = Duration::from_secs(8);
const HALF_LOAD: Duration = Duration::from_secs(20);

fn main() -> Result<()> {
    runtime::tls::install_crypto_provider();
    let server = Server::start()?;
    let asker = Asker::new(&server)?;
    asker.as_fast_as_possible(WARM_UP)?;

    let (cpu, resident) = (server.cpu()?, resident_bytes()?);
    let most = asker.as_fast_as_possible(SATURATION)?;
    let busy = server.cpu()?.saturating_sub(cpu).as_secs_f64();
    let per_second = most.count() as f64 / SATURATION.as_secs_f64();
    let per_core = most.count() as f64 / busy;
    println!("10,000 VPA objects; {} bytes per review", asker.review_bytes());
    println!("as fast as possible: {per_second:.0} reviews/s, {}", most.summary());
    println!("per core of the server: {per_core:.0} reviews/s, {:.0} us each", 1e6 / per_core);

    let cpu = server.cpu()?;
    let half = asker.at_rate(per_core / 2.0, HALF_LOAD)?;
    let busy = server.cpu()?.saturating_sub(cpu).as_secs_f64() / HALF_LOAD.as_secs_f64();
    println!(
        "half of that: {:.0} reviews/s, {}; the server's core was busy for {:.0} %",
        per_core / 2.0,
        half.summary(),
        busy * 100.0
    );
    let grown = resident_bytes()? as f64 - resident as f64;
    println!("memory: {:.0} MiB, {:+.1} MiB over the run", resident as f64 / 1_048_576.0, grown / 1_048_576.0);
    ensure!(half.unchanged() == 0, "at half load, {} pods were left as they were", half.unchanged());
    ensure!(half.percentile_ms(0.99) < P99_MS, "the 99th percentile is above {P99_MS} ms");
    Ok(())
}

fn resident_bytes() -> Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    Ok(statm.split(' ').nth(1).unwrap_or_default().parse::<u64>()? * 4096)
}

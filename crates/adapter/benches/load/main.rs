//! The adapter under the load of 10,000 EHPAs, over real TLS on the loopback interface with the
//! front proxy's certificate: one core serves, another one sends.
//!
//! The first run sends the requests of 10,000 EHPAs every 15 seconds, each at its time; the second
//! one as many requests as the server can handle.

mod client;
mod cluster;
mod server;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use testing::measured::resident_bytes;

use client::LoadClient;
use cluster::AUTOSCALERS;
use server::Server;

const P99_MS: f64 = 5.0;
/// The interval of an autoscaler's requests.
const PERIOD_SECONDS: f64 = 15.0;
const WARM_UP: Duration = Duration::from_secs(3);
const SECONDS: u64 = 45;
const SATURATION: Duration = Duration::from_secs(5);
/// The largest accepted growth of memory.
const GROWTH_MIB: f64 = 8.0;

fn main() -> Result<()> {
    runtime::client::install_crypto_provider();
    let duration = Duration::from_secs(
        std::env::var("PLIMSOLL_LOAD_SECONDS").map_or(Ok(SECONDS), |text| text.parse())?,
    );
    let server = Server::start()?;
    let asker = LoadClient::new(&server);
    let rate = AUTOSCALERS as f64 / PERIOD_SECONDS;
    asker.ask(Some(rate), WARM_UP)?;

    let (cpu, resident) = (server.cpu()?, resident_mib()?);
    let mut answered = asker.ask(Some(rate), duration)?;
    let busy = server.cpu()?.saturating_sub(cpu).as_secs_f64() / duration.as_secs_f64();
    let grown = resident_mib()? - resident;
    println!(
        "{AUTOSCALERS} autoscalers, {rate:.0} questions/s for {duration:?}: {} answers",
        answered.count()
    );
    println!(
        "{}; the server's core was busy for {:.0} %",
        answered.summary(),
        busy * 100.0
    );
    println!("memory: {resident:.0} MiB, {grown:+.1} MiB over the run");

    let cpu = server.cpu()?;
    let most = asker.ask(None, SATURATION)?;
    let each_us = server.cpu()?.saturating_sub(cpu).as_secs_f64() * 1e6 / most.count() as f64;
    println!(
        "as fast as possible: {:.0} answers/s, {each_us:.0} us of a core each",
        most.count() as f64 / SATURATION.as_secs_f64()
    );
    ensure!(
        answered.percentile_ms(0.99) <= P99_MS,
        "the 99th percentile is above {P99_MS} ms"
    );
    ensure!(grown < GROWTH_MIB, "memory grew by {grown:.1} MiB");
    Ok(())
}

fn resident_mib() -> Result<f64> {
    let bytes = resident_bytes().context("resident memory")?;
    Ok(bytes as f64 / 1_048_576.0)
}

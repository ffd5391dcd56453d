//! Load test of the webhook over TLS on the loopback interface. Server and client are processes
//! with a core each. Each review is of a pod of one of 10,000 VPA objects.
//!
//! First the maximum rate on all connections is measured, then the latency at half of it, with
//! random arrivals and counted from the time at which a review is due. Both threads get real-time
//! priority if that is permitted, and cores do not sleep. The time that each thread waited for its
//! core tells a slow server from a busy machine. Stalls of a virtual machine, which its kernel does
//! not see, are measured beforehand. They last milliseconds and hit some of the short rounds, so
//! the goal applies to the median of the rounds' 99th percentiles.

mod client;
mod cluster;
mod connection;
mod cores;
mod http2;
mod server;

use anyhow::{Result, ensure};

use client::{Client, LoadResult};
use cores::{Awake, Thread, Used, stay_on};
use server::{SERVE, Server};

/// Maximum of the median 99th percentile.
const P99_MS: f64 = 1.0;
/// Share of time beyond which stalls of the machine alone would exceed the goal.
const MAX_STALLED: f64 = 0.005;
/// Maximum growth of the server's memory in some three hundred thousand reviews.
const MAX_GROWTH_BYTES: u64 = 2 << 20;
/// Numbers of rounds.
const WARM_UP: u32 = 25;
const SATURATION: u32 = 80;
const HALF_LOAD: u32 = 201;

fn main() -> Result<()> {
    runtime::client::install_crypto_provider();
    if std::env::args().any(|argument| argument == SERVE) {
        return server::run();
    }
    if std::env::args().any(|argument| argument == "http2") {
        let server = Server::start()?;
        return http2::measure(&server, client::tls_config(&server)?);
    }
    let awake = Awake::request();
    match &awake {
        Ok(_) => println!("idle cores stay awake"),
        Err(error) => println!("idle cores may sleep, which adds to latencies: {error:#}"),
    }
    let machine = cores::watch()?;
    let (stalled, longest) = (100.0 * machine.stalled, machine.longest.as_secs_f64() * 1e3);
    println!("the machine stalls for {stalled:.2} % of the time (median), {longest:.1} ms at most");
    let server = Server::start()?;
    stay_on(1)?;
    let own = Thread::current()?;
    let mut client = Client::new(&server)?;
    let bytes = client.review_bytes();
    println!("10,000 VPA objects; {bytes} bytes per review");
    let has_core = is_raised("the server", &server.thread) & is_raised("the client", &own);
    let is_fit = has_core && machine.stalled < MAX_STALLED;
    client.as_fast_as_possible(WARM_UP)?;

    let (before, resident) = (server.thread.used()?, server.resident_bytes()?);
    let mut full = client.as_fast_as_possible(SATURATION)?;
    let used = server.thread.used_since(before)?;
    let per_core = full.latencies.count() as f64 / used.ran.as_secs_f64();
    let (rate, latencies) = (full.per_second(), full.latencies.summary());
    println!("maximum rate: {rate:.0} reviews/s, {latencies}");

    let (before, own_before) = (server.thread.used()?, own.used()?);
    let mut half = client.at_rate(per_core / 2.0, HALF_LOAD)?;
    let used = server.thread.used_since(before)?;
    report(&mut half, used, own.used_since(own_before)?);
    let memory = (resident, server.resident_bytes()?);
    verdict(per_core, &mut half, is_fit, memory)
}

/// Gives a thread real-time priority. Prints whether that is permitted.
fn is_raised(name: &str, thread: &Thread) -> bool {
    match thread.raise() {
        Ok(()) => {
            println!("{name} has real-time priority on its core");
            true
        }
        Err(error) => {
            println!("{name} shares its core, and latencies include the wait for it: {error:#}");
            false
        }
    }
}

fn report(half: &mut LoadResult, server: Used, client: Used) {
    let (rate, latencies) = (half.per_second(), half.latencies.summary());
    println!("half of that: {rate:.0} reviews/s, {latencies}");
    let (late, without) = (half.late.summary(), half.without_connection);
    println!("  sent late: {late}; {without} found no free connection");
    println!("  {} pods unchanged", half.unchanged);
    let share = |time: std::time::Duration| 100.0 * time.div_duration_f64(half.took);
    let percent = |used: Used| (share(used.ran), share(used.waited));
    let ((ran, waited), (client_ran, client_waited)) = (percent(server), percent(client));
    println!("  the server ran {ran:.1} % of the time and waited {waited:.1} % for its core");
    println!("  the client ran {client_ran:.1} % and waited {client_waited:.1} %");
}

fn verdict(
    per_core: f64,
    half: &mut LoadResult,
    is_fit: bool,
    (before, after): (u64, u64),
) -> Result<()> {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| half.latencies.percentile_ms(share));
    let rounds = &mut half.p99_by_round;
    rounds.sort_by(f64::total_cmp);
    let round = |number: usize| rounds.get(number).copied().unwrap_or(f64::NAN);
    let count = rounds.len();
    let [best, middle, worst] = [0, count / 2, count.saturating_sub(1)].map(round);
    let good = rounds.iter().filter(|p99| **p99 < P99_MS).count();
    let mebibytes = |bytes: u64| bytes as f64 / 1_048_576.0;
    let grown = after.saturating_sub(before);
    let each = 1e6 / per_core;
    println!("reviews per second and core: {per_core:.0} ({each:.1} us each)");
    println!("at half of that: p50 {p50:.3} ms, p99 {p99:.3} ms, p99.9 {p999:.3} ms");
    println!(
        "p99 of the median round: {middle:.3} ms (goal: below {P99_MS} ms); of the best {best:.3} ms, of the worst {worst:.3} ms; \
         {good} of {count} rounds are below the goal"
    );
    let [before, after, grown_by] = [before, after, grown].map(mebibytes);
    println!("memory of the server: {before:.1} MiB before, {after:.1} MiB after");
    let unchanged = half.unchanged;
    ensure!(
        unchanged == 0,
        "at half load, {unchanged} pods were unchanged"
    );
    ensure!(
        grown < MAX_GROWTH_BYTES,
        "the server grew by {grown_by:.1} MiB"
    );
    if is_fit {
        ensure!(
            middle < P99_MS,
            "the p99 of the median round is above {P99_MS} ms"
        );
    } else {
        println!(
            "goal not checked: without real-time priority, or with stalls, the latencies are also the machine's"
        );
    }
    Ok(())
}

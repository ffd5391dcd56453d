//! The webhook under load, over real TLS on the loopback interface: a process on one core answers,
//! another one on another core asks. Each review is of a pod that one of 10,000 VPA objects sizes.
//!
//! First as many reviews as the server can take, on all connections at once; then half as many,
//! each due at random and counted from when it was due. Both threads get real-time priority where
//! that is permitted, so that nothing else on the machine takes their cores, and cores do not
//! sleep. The kernel's word on how long they waited for them tells a slow server from a busy
//! machine. What the kernel does not know, that the host of a virtual machine has taken a core
//! away, is looked at before: it lasts milliseconds, and comes in some rounds, which are short for
//! that. So the 99th percentile that is judged is that of the middle round; that of all rounds
//! together is printed beside it.

mod arrivals;
mod asking;
mod cluster;
mod connection;
mod cores;
mod latencies;
mod readiness;
mod server;
mod serving;
mod stalls;

use anyhow::{Result, ensure};

use asking::{Asked, Asker};
use cores::{Awake, Thread, Used, stay_on};
use server::{SERVE, Server};

/// The goal.
const P99_MS: f64 = 1.0;
/// From so much on, the machine alone would break the goal.
const STANDS_STILL: f64 = 0.005;
/// What may come to the server's memory while it answers some three hundred thousand reviews.
const FLAT_BYTES: u64 = 2 << 20;
/// Rounds of asking.
const WARM_UP: u32 = 25;
const SATURATION: u32 = 80;
const HALF_LOAD: u32 = 201;

fn main() -> Result<()> {
    runtime::client::install_crypto_provider();
    if std::env::args().any(|argument| argument == SERVE) {
        return serving::run();
    }
    let awake = Awake::request();
    match &awake {
        Ok(_) => println!("cores that have nothing to do stay awake"),
        Err(error) => {
            println!(
                "cores that have nothing to do may sleep, and latencies include their waking up: {error:#}"
            );
        }
    }
    let machine = stalls::watch()?;
    let (missed, longest) = (100.0 * machine.missed, machine.longest.as_secs_f64() * 1e3);
    println!(
        "the machine by itself mostly stands still for {missed:.2} % of the time; {longest:.1} ms at most"
    );
    let server = Server::start()?;
    stay_on(1)?;
    let own = Thread::current()?;
    let mut asker = Asker::new(&server)?;
    println!(
        "10,000 VPA objects; {} bytes per review",
        asker.review_bytes()
    );
    let has_core = is_raised("the server", &server.thread) & is_raised("who asks", &own);
    let is_fit = has_core && machine.missed < STANDS_STILL;
    asker.as_fast_as_possible(WARM_UP)?;

    let (before, resident) = (server.thread.used()?, server.resident_bytes()?);
    let mut most = asker.as_fast_as_possible(SATURATION)?;
    let used = server.thread.used_since(before)?;
    let per_core = most.latencies.count() as f64 / used.ran.as_secs_f64();
    println!(
        "as fast as possible: {:.0} reviews/s, {}",
        most.per_second(),
        most.latencies.summary()
    );

    let (before, own_before) = (server.thread.used()?, own.used()?);
    let mut half = asker.at_rate(per_core / 2.0, HALF_LOAD)?;
    let (used, own_used) = (
        server.thread.used_since(before)?,
        own.used_since(own_before)?,
    );
    report(&mut half, used, own_used);
    verdict(
        per_core,
        &mut half,
        is_fit,
        (resident, server.resident_bytes()?),
    )
}

/// Gives a thread its core, and says so.
fn is_raised(who: &str, thread: &Thread) -> bool {
    match thread.raise() {
        Ok(()) => {
            println!("{who} has a core before everything else (real-time priority)");
            true
        }
        Err(error) => {
            println!("{who} shares its core, and latencies include the wait for it: {error:#}");
            false
        }
    }
}

fn report(half: &mut Asked, server: Used, asker: Used) {
    println!(
        "half of that: {:.0} reviews/s, {}",
        half.per_second(),
        half.latencies.summary()
    );
    println!(
        "  sent late: {}; {} found no connection free",
        half.late.summary(),
        half.crowded
    );
    println!("  {} pods left as they were", half.unchanged);
    let share = |time: std::time::Duration| 100.0 * time.div_duration_f64(half.took);
    let percent = |used: Used| (share(used.ran), share(used.waited));
    let ((ran, waited), (asker_ran, asker_waited)) = (percent(server), percent(asker));
    println!("  the server ran {ran:.1} % of the time and waited {waited:.1} % for its core");
    println!("  who asks ran {asker_ran:.1} % and waited {asker_waited:.1} %");
}

fn verdict(
    per_core: f64,
    half: &mut Asked,
    is_fit: bool,
    (before, after): (u64, u64),
) -> Result<()> {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| half.latencies.percentile_ms(share));
    let rounds = &mut half.p99_by_round;
    rounds.sort_by(f64::total_cmp);
    let round = |number: usize| rounds.get(number).copied().unwrap_or(f64::NAN);
    let (best, middle, worst) = (
        round(0),
        round(rounds.len() / 2),
        round(rounds.len().saturating_sub(1)),
    );
    let good = rounds.iter().filter(|p99| **p99 < P99_MS).count();
    let mebibytes = |bytes: u64| bytes as f64 / 1_048_576.0;
    let grown = after.saturating_sub(before);
    println!(
        "reviews per second and core: {per_core:.0} ({:.1} us each)",
        1e6 / per_core
    );
    println!("at half of that: p50 {p50:.3} ms, p99 {p99:.3} ms, p99.9 {p999:.3} ms");
    println!(
        "p99 of the middle round: {middle:.3} ms (goal: below {P99_MS} ms); of the best {best:.3} ms, of the worst {worst:.3} ms; \
         {good} of {} rounds are below the goal",
        rounds.len()
    );
    println!(
        "memory of the server: {:.1} MiB before, {:.1} MiB after",
        mebibytes(before),
        mebibytes(after)
    );
    ensure!(
        half.unchanged == 0,
        "at half load, {} pods were left as they were",
        half.unchanged
    );
    ensure!(
        grown < FLAT_BYTES,
        "the server grew by {:.1} MiB",
        mebibytes(grown)
    );
    if is_fit {
        ensure!(
            middle < P99_MS,
            "the 99th percentile of the middle round is above {P99_MS} ms"
        );
    } else {
        println!(
            "not judged: without real-time priority, or where the machine stands still, the latencies are also the machine's"
        );
    }
    Ok(())
}

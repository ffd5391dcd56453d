//! Readers that stop reading do not grow the server's memory, and get the newest state when they
//! read again. The server runs in its own process here, so that its memory can be measured.
//!
//! One reader keeps a stream open without reading. The other is frozen completely, so that not even
//! ping replies get through and network buffers fill. A short run counts rounds of changes;
//! `PLIMSOLL_SLOW_READER_SECONDS` (`make bench-feed`) sets a duration.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use feed::Reader;
use feed::proto::WatchRecommendationsRequest;
use feed::proto::recommendations_update::Change;
use model::Cpu;
use tokio::sync::watch;

use crate::certificates::Authority;
use crate::changing_server::{ChangingServer, OBJECTS, millicores, uid};
use crate::fixture::{LIMIT, server_name, targets};
use crate::frozen::Freezer;

/// Rounds until buffers are full and the allocator has settled.
const WARM_UP: i64 = 40;
const ROUNDS: i64 = 60;
/// Limit as a share of the server's memory after the warm-up.
const MOST_GROWTH: f64 = 0.05;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_stop_reading_leave_the_servers_memory_flat() {
    let authority = Authority::new();
    let mut server = ChangingServer::start(&authority).await;
    let tls = authority.named("plimsoll-updater");
    let current: feed::client::CurrentTls =
        std::sync::Arc::new(move || std::sync::Arc::clone(&tls));

    let mut idle = feed::client::client(&server.address, &current, &server_name())
        .await
        .unwrap();
    let mut idle = idle
        .watch_recommendations(WatchRecommendationsRequest {})
        .await
        .unwrap()
        .into_inner();
    let freezer = Freezer::start(&server.address).await;
    let (_leader, leaders) = watch::channel(Some(freezer.address.clone()));
    let reader = Reader {
        leaders: vec![leaders],
        tls: current,
        server_name: server_name(),
    };
    let (mut frozen, reading) = reader.subscribe();
    tokio::spawn(reading);
    let received = frozen.wait_for(|now| now.iter().count() == OBJECTS as usize);
    drop(
        tokio::time::timeout(LIMIT, received)
            .await
            .expect("the second reader hears everything")
            .unwrap(),
    );
    freezer.freeze();

    server.rounds(WARM_UP).await;
    let before = server.resident_bytes();
    let (mut most, mut rounds, started) = (before, 0, Instant::now());
    let seconds = std::env::var("PLIMSOLL_SLOW_READER_SECONDS")
        .ok()
        .map(|text| text.parse::<u64>().unwrap());
    let lasts = |rounds| match seconds {
        Some(seconds) => started.elapsed() < Duration::from_secs(seconds),
        None => rounds < ROUNDS,
    };
    while lasts(rounds) {
        server.rounds(1).await;
        rounds += 1;
        most = most.max(server.resident_bytes());
    }
    let growth = most as f64 / before as f64 - 1.0;
    println!(
        "{OBJECTS} objects changed {rounds} times within {:.1} s while two readers did not read: {:.1} MiB at first, at most \
         {:.1} MiB later ({:+.1} %)",
        started.elapsed().as_secs_f64(),
        before as f64 / f64::from(1 << 20),
        most as f64 / f64::from(1 << 20),
        growth * 100.0
    );
    assert!(growth <= MOST_GROWTH, "from {before} to {most} bytes");

    let last = server.stop().await;
    assert!(last + 1 >= WARM_UP + rounds, "{last} after {rounds} rounds");
    let expected: BTreeMap<String, i64> = (0..OBJECTS)
        .map(|object| (uid(object), millicores(last, object)))
        .collect();
    let read = catch_up(&mut idle, &expected).await;
    // The listing of all objects, and the changes in the part that was listed before: each object
    // at most twice.
    assert!(read <= 2 * OBJECTS, "{read} values for {OBJECTS} objects");
    freezer.thaw();
    let is_current = |now: &feed::Subscription| {
        now.stale_since().is_none()
            && targets(now)
                .into_iter()
                .eq(expected.iter().map(|(uid, cpu)| (uid.as_str(), *cpu)))
    };
    drop(
        tokio::time::timeout(LIMIT, frozen.wait_for(is_current))
            .await
            .expect("the second reader catches up")
            .unwrap(),
    );
}

/// Reads until all values are current. Returns the number of values read.
async fn catch_up(
    stream: &mut tonic::Streaming<feed::proto::RecommendationsUpdate>,
    expected: &BTreeMap<String, i64>,
) -> i64 {
    let (mut known, mut read) = (BTreeMap::new(), 0);
    while known != *expected {
        let message = tokio::time::timeout(LIMIT, stream.message())
            .await
            .expect("a message in time");
        let items = match message
            .unwrap()
            .expect("the stream goes on")
            .change
            .unwrap()
        {
            Change::Reset(reset) => reset.recommendations,
            Change::Apply(apply) => apply.recommendations,
            Change::Delete(delete) => panic!("nothing was deleted: {delete:?}"),
        };
        read += items.len() as i64;
        known.extend(items.into_iter().map(|item| {
            let cpu: model::Quantity = item.containers[0].target["cpu"].parse().unwrap();
            (item.uid, Cpu::from(&cpu).millicores())
        }));
    }
    read
}

//! A reader that stops reading costs the server no memory and misses nothing.

use std::collections::BTreeMap;

use feed::proto::WatchRecommendationsRequest;
use feed::proto::recommendations_update::Change;
use jiff::{SignedDuration, Timestamp};

use crate::certificates::Authority;
use crate::fixture::{Replica, recommendation};

const OBJECTS: i64 = 10_000;
const ROUNDS: i64 = 20;
/// Messages that the transport accepts before the reader reads: the reader's window of 1 MiB and
/// the server's buffer of 400 KiB, in messages of about 50 KiB here, plus a few in between. All
/// rounds would make 800 messages.
const MAX_AHEAD: f64 = 48.0;
/// Changes of one object, a second apart.
const CHANGES: i64 = 10;

fn round(round: i64) -> impl Iterator<Item = feed::Recommendation> {
    (0..OBJECTS).map(move |object| {
        recommendation(&format!("uid-{object:05}"), round * OBJECTS + object + 1)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stops_reading_is_owed_the_last_state_only() {
    let authority = Authority::new();
    let replica = Replica::start(&authority).await;
    let term = replica.lead(1, round(0));
    let tls = authority.named("plimsoll-updater");
    let mut client = replica.client(tls).await.unwrap();
    let mut stream = client
        .watch_recommendations(WatchRecommendationsRequest {})
        .await
        .unwrap()
        .into_inner();

    for number in 1..ROUNDS {
        term.reset(round(number), Timestamp::UNIX_EPOCH);
        let sent = replica.metric("plimsoll_feed_messages_total");
        assert!(
            sent <= MAX_AHEAD,
            "{sent} messages were written for a reader that does not read"
        );
        assert_eq!(replica.publisher.len(), OBJECTS as usize);
    }
    term.delete("uid-00000", Timestamp::UNIX_EPOCH);

    let expected: BTreeMap<String, String> = round(ROUNDS - 1)
        .filter(|object| object.uid != "uid-00000")
        .map(|object| {
            let cpu = object.recommendation.containers[0].target.clone();
            (
                object.uid,
                cpu.get(&model::ResourceName::Cpu).unwrap().to_string(),
            )
        })
        .collect();
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut read = 0;
    while known != expected {
        let message = stream.message().await.unwrap().expect("the stream goes on");
        read += 1;
        let items = match message.change.unwrap() {
            Change::Reset(reset) => reset.recommendations,
            Change::Apply(apply) => apply.recommendations,
            Change::Delete(delete) => {
                delete.uids.iter().for_each(|uid| drop(known.remove(uid)));
                continue;
            }
        };
        known.extend(
            items
                .into_iter()
                .map(|item| (item.uid, item.containers[0].target["cpu"].clone())),
        );
    }
    // The reset lists all objects once; changes in the part that was listed before follow once.
    assert!(read <= 2 * OBJECTS / 100, "{read} messages");
    assert!(replica.metric("plimsoll_feed_coalesced_total") > 0.0);
}

/// The server has the same thread, so it sends no message between the changes.
#[tokio::test]
async fn a_message_is_as_late_as_the_first_change_that_it_replaces() {
    let authority = Authority::new();
    let replica = Replica::start(&authority).await;
    let term = replica.lead(1, [recommendation("uid", 1)]);
    let mut client = replica
        .client(authority.named("plimsoll-updater"))
        .await
        .unwrap();
    let request = client.watch_recommendations(WatchRecommendationsRequest {});
    let mut stream = request.await.unwrap().into_inner();
    stream.message().await.unwrap().expect("the reset");

    let first = Timestamp::now() - SignedDuration::from_secs(CHANGES);
    for change in 0..CHANGES {
        let time = first + SignedDuration::from_secs(change);
        term.apply(recommendation("uid", 2 + change), time);
    }
    stream.message().await.unwrap().expect("the last change");
    let lag = replica.sum("plimsoll_feed_lag_seconds");
    assert!(lag >= CHANGES as f64, "{lag} s");
}

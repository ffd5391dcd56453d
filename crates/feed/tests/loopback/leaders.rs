//! Readers across changes of leadership.

use std::time::Duration;

use feed::ServerLimits;
use jiff::Timestamp;

use crate::certificates::Authority;
use crate::fixture::{Follower, LIMIT, Replica, recommendation};

#[tokio::test]
async fn a_reader_follows_every_change() {
    let authority = Authority::new();
    let replica = Replica::start(&authority).await;
    let term = replica.lead(1, [recommendation("a", 1), recommendation("b", 2)]);
    let mut follower = Follower::of(&authority, &replica);
    follower.until_fresh(&[("a", 1), ("b", 2)]).await;
    term.apply(recommendation("b", 3), Timestamp::UNIX_EPOCH);
    term.apply(recommendation("c", 4), Timestamp::UNIX_EPOCH);
    follower.until_fresh(&[("a", 1), ("b", 3), ("c", 4)]).await;
    term.delete("a", Timestamp::UNIX_EPOCH);
    follower.until_fresh(&[("b", 3), ("c", 4)]).await;
    let values = [recommendation("c", 4), recommendation("d", 5)];
    term.reset(values, Timestamp::UNIX_EPOCH);
    follower.until_fresh(&[("c", 4), ("d", 5)]).await;
}

#[tokio::test]
async fn a_standby_serves_no_reader_and_a_new_leader_only_after_its_first_reset() {
    let authority = Authority::new();
    let replica = Replica::start(&authority).await;
    let mut follower = Follower::of(&authority, &replica);
    let term = replica.publisher.begin(1);
    term.apply(recommendation("a", 1), Timestamp::UNIX_EPOCH);
    follower.until_stale().await;
    follower.check(&[]);
    let values = [recommendation("a", 1), recommendation("b", 2)];
    term.reset(values, Timestamp::UNIX_EPOCH);
    follower.until_fresh(&[("a", 1), ("b", 2)]).await;
}

#[tokio::test]
async fn a_reader_keeps_the_last_value_and_resumes_with_what_changed() {
    let authority = Authority::new();
    let replica = Replica::start(&authority).await;
    let term = replica.lead(1, [recommendation("a", 1), recommendation("b", 2)]);
    let mut follower = Follower::of(&authority, &replica);
    follower.until_fresh(&[("a", 1), ("b", 2)]).await;
    drop(term);
    follower.until_stale().await;
    follower.check(&[("a", 1), ("b", 2)]);
    let _term = replica.lead(2, [recommendation("b", 3)]);
    follower.until_fresh(&[("b", 3)]).await;
}

#[tokio::test]
async fn a_reader_goes_to_the_new_leader_and_never_back_to_an_older_value() {
    let authority = Authority::new();
    let first = Replica::start(&authority).await;
    let second = Replica::start(&authority).await;
    let old_term = first.lead(1, [recommendation("a", 1)]);
    for millicores in 2..50 {
        old_term.apply(recommendation("a", millicores), Timestamp::UNIX_EPOCH);
    }
    let mut follower = Follower::of(&authority, &first);
    follower.until_fresh(&[("a", 49)]).await;

    let _new_term = second.lead(2, [recommendation("a", 100)]);
    follower.follow(&second);
    follower.until_fresh(&[("a", 100)]).await;

    // The first leader does not know yet that it was replaced.
    old_term.apply(recommendation("a", 50), Timestamp::UNIX_EPOCH);
    follower.follow(&first);
    follower.until_stale().await;
    let calls = first.metric("plimsoll_feed_messages_total");
    let tried_again = async {
        while first.metric("plimsoll_feed_messages_total") < calls + 2.0 {
            tokio::task::yield_now().await;
            follower.check(&[("a", 100)]);
        }
    };
    tokio::time::timeout(LIMIT, tried_again)
        .await
        .expect("it tries again");

    drop(old_term);
    let _newest_term = first.lead(3, [recommendation("a", 51)]);
    follower.until_fresh(&[("a", 51)]).await;
}

#[tokio::test]
async fn a_leader_that_dies_is_followed_by_the_next_without_a_gap() {
    let authority = Authority::new();
    let first = Replica::start(&authority).await;
    let second = Replica::start(&authority).await;
    let old_term = first.lead(1, [recommendation("a", 1)]);
    let mut follower = Follower::of(&authority, &first);
    follower.until_fresh(&[("a", 1)]).await;
    drop((old_term, first));
    follower.until_stale().await;
    follower.check(&[("a", 1)]);
    let _new_term = second.lead(2, [recommendation("a", 2)]);
    follower.follow(&second);
    // No intermediate state lacks the object.
    follower
        .until("the new value", |now| {
            assert_eq!(now.iter().count(), 1);
            now.stale_since().is_none()
        })
        .await;
    follower.check(&[("a", 2)]);
}

#[tokio::test]
async fn a_stream_that_has_lasted_long_enough_is_opened_anew() {
    let authority = Authority::new();
    let limits = ServerLimits {
        stream_age: Duration::from_millis(20),
        ..ServerLimits::default()
    };
    let replica = Replica::with(&authority, limits).await;
    let term = replica.lead(1, [recommendation("a", 1)]);
    let mut follower = Follower::of(&authority, &replica);
    for millicores in 2..6 {
        follower.until_fresh(&[("a", millicores - 1)]).await;
        follower.until_stale().await;
        term.apply(recommendation("a", millicores), Timestamp::UNIX_EPOCH);
    }
}

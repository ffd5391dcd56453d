//! One reader of several leaders, each with its own shard of the objects.

use feed::Subscription;
use jiff::Timestamp;

use crate::certificates::Authority;
use crate::fixture::{Follower, Replica, recommendation};

/// Two leaders and a reader of both.
struct Fixture {
    authority: Authority,
    first: Replica,
    second: Replica,
    follower: Follower,
}

impl Fixture {
    async fn new() -> Self {
        let authority = Authority::new();
        let first = Replica::start(&authority).await;
        let second = Replica::start(&authority).await;
        let follower = Follower::of_shards(2, authority.named("plimsoll-updater"));
        follower.follow_in(0, &first);
        follower.follow_in(1, &second);
        Self {
            authority,
            first,
            second,
            follower,
        }
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn fresh(subscription: &Subscription) -> [bool; 2] {
    [0, 1].map(|shard| subscription.leaders()[shard].stale_since.is_none())
}

#[tokio::test]
async fn a_reset_of_one_shard_leaves_the_others_alone() {
    let Fixture {
        first,
        second,
        mut follower,
        ..
    } = Fixture::new().await;
    // Terms of different shards are unrelated.
    let one = first.lead(900, [recommendation("a", 1), recommendation("b", 2)]);
    let two = second.lead(1, [recommendation("c", 3)]);
    follower.until_fresh(&[("a", 1), ("b", 2), ("c", 3)]).await;
    one.reset([recommendation("b", 4)], at(1));
    follower.until_fresh(&[("b", 4), ("c", 3)]).await;
    two.delete("c", at(1));
    two.apply(recommendation("d", 5), at(1));
    follower.until_fresh(&[("b", 4), ("d", 5)]).await;
}

#[tokio::test]
async fn one_shard_without_a_leader_does_not_disturb_the_others() {
    let Fixture {
        authority,
        first,
        second,
        mut follower,
    } = Fixture::new().await;
    let one = first.lead(5, [recommendation("a", 1)]);
    let two = second.lead(5, [recommendation("b", 2)]);
    follower.until_fresh(&[("a", 1), ("b", 2)]).await;
    drop((one, first));
    let only_second = |now: &Subscription| fresh(now) == [false, true];
    follower
        .until("only the second is fresh", only_second)
        .await;
    follower.check(&[("a", 1), ("b", 2)]);
    two.apply(recommendation("b", 3), at(1));
    let has_news = |now: &Subscription| now.get("b").is_some_and(|b| b.changed_at == at(1));
    follower.until("the second's news", has_news).await;
    assert_eq!(fresh(&follower.subscription.borrow()), [false, true]);

    let next = Replica::start(&authority).await;
    let _one = next.lead(6, [recommendation("a", 4)]);
    follower.follow_in(0, &next);
    follower
        .until("the next leader of the first", |now| {
            assert!(fresh(now)[1], "the second was never interrupted");
            fresh(now)[0]
        })
        .await;
    follower.check(&[("a", 4), ("b", 3)]);
}

#[tokio::test]
async fn an_object_that_moves_to_another_shard_never_goes_back_to_an_older_value() {
    let Fixture {
        first,
        second,
        mut follower,
        ..
    } = Fixture::new().await;
    let old = first.publisher.begin(7);
    let values = [recommendation("a", 1), recommendation("moves", 10)];
    old.reset(values, at(10));
    let new = second.publisher.begin(1);
    new.reset([recommendation("moves", 20)], at(20));
    follower.until_fresh(&[("a", 1), ("moves", 20)]).await;

    // The first leader does not know yet and starts again with its old values.
    drop(old);
    follower.until_stale().await;
    let old = first.publisher.begin(8);
    let values = [recommendation("a", 2), recommendation("moves", 10)];
    old.reset(values, at(30));
    follower.until_fresh(&[("a", 2), ("moves", 20)]).await;
    old.reset([recommendation("a", 3)], at(40));
    follower.until_fresh(&[("a", 3), ("moves", 20)]).await;
    new.apply(recommendation("moves", 21), at(50));
    follower.until_fresh(&[("a", 3), ("moves", 21)]).await;
}

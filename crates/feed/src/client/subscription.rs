//! Values received from each leader, separate so that a reset of one shard clears no other's.
//!
//! Normally only the leader of an object's shard sends it. When namespaces move between shards, two
//! leaders may send the same object for a while; then the latest change counts, by the leaders'
//! clocks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;

use crate::recommendation::Recommendation;
use crate::topic::Topic;

/// Received values of all leaders.
#[derive(Debug, Clone, PartialEq)]
pub struct Subscription<V: Topic = Recommendation> {
    pub(super) leaders: Vec<LeaderState<V>>,
}

/// Received values of one leader and its predecessors.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaderState<V: Topic = Recommendation> {
    /// By UID of the object.
    pub values: BTreeMap<String, Received<V>>,
    /// Time from which changes may be missing; `None` while the stream is up.
    pub stale_since: Option<Instant>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Received<V: Topic = Recommendation> {
    /// The value, shared between copies of the subscription.
    pub value: Arc<V>,
    /// Leader term of the value. Terms of different shards cannot be compared.
    pub term: u64,
    pub revision: u64,
    /// Time of the change, by the leader's clock.
    pub changed_at: Timestamp,
}

impl<V: Topic> LeaderState<V> {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            values: BTreeMap::new(),
            stale_since: Some(now),
        }
    }
}

impl<V: Topic> Subscription<V> {
    /// Without values for `leaders` leaders, stale from `now`.
    pub(super) fn new(leaders: usize, now: Instant) -> Self {
        Self::from_leaders(vec![LeaderState::new(now); leaders])
    }

    pub fn from_leaders(leaders: Vec<LeaderState<V>>) -> Self {
        Self { leaders }
    }

    /// The state of each leader, in the order passed to the reader.
    pub fn leaders(&self) -> &[LeaderState<V>] {
        &self.leaders
    }

    pub fn get(&self, uid: &str) -> Option<&Received<V>> {
        latest(self.leaders.iter(), uid)
    }

    /// The latest value of an object among leaders with an open stream.
    pub fn get_fresh(&self, uid: &str) -> Option<&Received<V>> {
        let is_fresh = |leader: &&LeaderState<V>| leader.stale_since.is_none();
        latest(self.leaders.iter().filter(is_fresh), uid)
    }

    /// The latest value of each object, with its UID.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Received<V>)> {
        let received = self.leaders.iter().flat_map(|leader| &leader.values);
        let is_latest = |uid: &str, received: &Received<V>| {
            self.get(uid)
                .is_some_and(|last| std::ptr::eq(received, last))
        };
        received
            .filter(move |(uid, received)| is_latest(uid, received))
            .map(|(uid, received)| (uid.as_str(), received))
    }

    /// Time from which changes of any leader may be missing; `None` while all streams are up.
    pub fn stale_since(&self) -> Option<Instant> {
        self.leaders
            .iter()
            .filter_map(|leader| leader.stale_since)
            .min()
    }
}

/// The value of an object that changed last among those of several leaders.
fn latest<'a, V: Topic>(
    leaders: impl Iterator<Item = &'a LeaderState<V>>,
    uid: &str,
) -> Option<&'a Received<V>> {
    let received = leaders.filter_map(|leader| leader.values.get(uid));
    received.max_by_key(|received| received.changed_at)
}

impl Subscription<Recommendation> {
    /// The received recommendation that replaces the one in the object's status, if any. Webhook
    /// and updater must agree, so that pods are recreated with the size they were evicted for.
    ///
    /// A value from an open stream precedes the status. Without a recommendation in the status, a
    /// stale value is used too. A recommendation for an older generation than `observed_generation`
    /// of the status is ignored, and so is one without containers.
    pub fn over_status(
        &self,
        uid: &str,
        observed_generation: i64,
        has_recommendation: bool,
    ) -> Option<&Received> {
        let counts = |received: &&Received| {
            let Recommendation {
                observed_generation: generation,
                recommendation,
                ..
            } = &*received.value;
            *generation >= observed_generation && !recommendation.containers.is_empty()
        };
        let fresh = self.get_fresh(uid).filter(counts);
        fresh.or_else(|| self.get(uid).filter(|_| !has_recommendation).filter(counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(changed_at: i64) -> Received {
        let changed_at = Timestamp::from_second(changed_at).unwrap();
        Received {
            value: Arc::default(),
            term: 1,
            revision: 1,
            changed_at,
        }
    }

    /// Expects objects and change times, given those received from each leader.
    fn check(sent: &[&[(&str, i64)]], expected: &[(&str, i64)]) {
        let mut subscription: Subscription = Subscription::new(sent.len(), Instant::now());
        for (leader, sent) in subscription.leaders.iter_mut().zip(sent) {
            leader.values = sent
                .iter()
                .map(|(uid, at)| ((*uid).to_owned(), received(*at)))
                .collect();
        }
        let mut counts: Vec<_> = subscription
            .iter()
            .map(|(uid, sent)| (uid, sent.changed_at.as_second()))
            .collect();
        counts.sort_unstable();
        assert_eq!(counts, expected);
        for (uid, at) in expected {
            assert_eq!(subscription.get(uid), Some(&received(*at)), "{uid}");
        }
        assert_eq!(subscription.get("unknown"), None);
    }

    #[test]
    fn each_leader_sends_its_own_objects() {
        check(&[], &[]);
        check(&[&[("a", 1)]], &[("a", 1)]);
        check(&[&[("a", 1)], &[("b", 2)]], &[("a", 1), ("b", 2)]);
    }

    #[test]
    fn of_two_values_of_one_object_the_latest_counts() {
        check(&[&[("a", 5), ("b", 1)], &[("a", 4)]], &[("a", 5), ("b", 1)]);
        check(&[&[("a", 4)], &[("a", 5)]], &[("a", 5)]);
        check(&[&[("a", 4)], &[("a", 4)]], &[("a", 4)]);
    }

    #[test]
    fn values_are_fresh_while_the_stream_of_their_leader_is_open() {
        let mut subscription: Subscription = Subscription::new(2, Instant::now());
        for (leader, at) in subscription.leaders.iter_mut().zip([5, 4]) {
            leader.values.insert("a".to_owned(), received(at));
        }
        assert_eq!(
            (subscription.get_fresh("a"), subscription.get("a")),
            (None, Some(&received(5)))
        );
        subscription.leaders[1].stale_since = None;
        assert_eq!(
            (subscription.get_fresh("a"), subscription.get_fresh("b")),
            (Some(&received(4)), None)
        );
        subscription.leaders[0].stale_since = None;
        assert_eq!(subscription.get_fresh("a"), Some(&received(5)));
    }

    /// Expects a received recommendation to replace a status of generation 3 or not.
    #[track_caller]
    fn check_over(
        generation: i64,
        containers: usize,
        is_fresh: bool,
        has_recommendation: bool,
        expected: bool,
    ) {
        let containers = vec![model::ContainerRecommendation::default(); containers];
        let value = Recommendation {
            observed_generation: generation,
            recommendation: model::Recommendation { containers },
            ..Recommendation::default()
        };
        let received = Received {
            value: Arc::new(value),
            ..received(1)
        };
        let stale_since = (!is_fresh).then(Instant::now);
        let subscription = Subscription::from_leaders(vec![LeaderState {
            values: [("a".to_owned(), received)].into(),
            stale_since,
        }]);
        assert_eq!(
            subscription
                .over_status("a", 3, has_recommendation)
                .is_some(),
            expected
        );
        assert_eq!(subscription.over_status("b", 3, has_recommendation), None);
    }

    #[test]
    fn a_fresh_recommendation_takes_precedence_over_the_status() {
        for (has_recommendation, stale) in [(true, false), (false, true)] {
            check_over(3, 1, true, has_recommendation, true);
            check_over(4, 1, true, has_recommendation, true);
            check_over(2, 1, true, has_recommendation, false);
            check_over(3, 0, true, has_recommendation, false);
            check_over(3, 1, false, has_recommendation, stale);
            check_over(2, 1, false, has_recommendation, false);
            check_over(3, 0, false, has_recommendation, false);
        }
    }

    #[test]
    fn a_subscription_is_stale_while_one_stream_is_down() {
        let (earlier, later) = (Instant::now(), Instant::now());
        let mut subscription: Subscription = Subscription::new(2, earlier);
        subscription.leaders[1].stale_since = Some(later);
        assert_eq!(subscription.stale_since(), Some(earlier));
        subscription.leaders[0].stale_since = None;
        assert_eq!(subscription.stale_since(), Some(later));
        subscription.leaders[1].stale_since = None;
        assert_eq!(subscription.stale_since(), None);
    }
}

//! What a reader holds: what each leader told, side by side, so that one leader's reset leaves
//! alone what others told.
//!
//! Usually each object is told by one leader, the one of its shard. When namespaces move between
//! shards, two may tell of the same object for a while; then the value that was decided last
//! counts, by the leaders' clocks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;

use crate::recommendation::Recommendation;
use crate::topic::Topic;

/// The state of a reader.
#[derive(Debug, Clone, PartialEq)]
pub struct Following<V: Topic = Recommendation> {
    parts: Vec<Part<V>>,
}

/// What one leader, or the last of those that followed each other, told.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<V: Topic = Recommendation> {
    /// By the object's unique identifier.
    pub values: BTreeMap<String, Heard<V>>,
    /// Since when changes may have been missed; absent while the stream is up.
    pub stale_since: Option<Instant>,
}

/// The last value that was heard.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard<V: Topic = Recommendation> {
    /// The value.
    pub value: Arc<V>,
    /// The term of leadership from which it is. Terms of different shards cannot be compared.
    pub term: u64,
    /// The number of its change in the term.
    pub revision: u64,
    /// When the leader saw it first, by the leader's clock.
    pub changed_at: Timestamp,
}

impl<V: Topic> Part<V> {
    /// Nothing was heard yet; it is stale from `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            values: BTreeMap::new(),
            stale_since: Some(now),
        }
    }
}

impl<V: Topic> Following<V> {
    /// Nothing was heard yet from so many leaders; it is stale from `now`.
    pub(super) fn new(leaders: usize, now: Instant) -> Self {
        Self::from_parts(vec![Part::new(now); leaders])
    }

    /// What these leaders told.
    pub fn from_parts(parts: Vec<Part<V>>) -> Self {
        Self { parts }
    }

    pub(super) fn part_mut(&mut self, leader: usize) -> Option<&mut Part<V>> {
        self.parts.get_mut(leader)
    }

    /// What each leader told, in the order in which they were given to the reader.
    pub fn parts(&self) -> &[Part<V>] {
        &self.parts
    }

    /// The last value for the object with this unique identifier.
    pub fn get(&self, uid: &str) -> Option<&Heard<V>> {
        let told = self.parts.iter().filter_map(|part| part.values.get(uid));
        told.max_by_key(|heard| heard.changed_at)
    }

    /// The last value for this object from leaders that are still heard.
    pub fn get_fresh(&self, uid: &str) -> Option<&Heard<V>> {
        let fresh = self.parts.iter().filter(|part| part.stale_since.is_none());
        fresh
            .filter_map(|part| part.values.get(uid))
            .max_by_key(|heard| heard.changed_at)
    }

    /// The last value of each object, with its unique identifier.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Heard<V>)> {
        let told = self.parts.iter().flat_map(|part| &part.values);
        told.filter(|(uid, heard)| self.get(uid).is_some_and(|last| std::ptr::eq(*heard, last)))
            .map(|(uid, heard)| (uid.as_str(), heard))
    }

    /// Since when changes of something may have been missed; absent while all streams are up.
    pub fn stale_since(&self) -> Option<Instant> {
        self.parts.iter().filter_map(|part| part.stale_since).min()
    }
}

impl Following<Recommendation> {
    /// The recommendation for this object that counts instead of its status, if there is one.
    /// Readers that size pods and readers that evict them must have the same, so that pods come
    /// back with the size that they were evicted for.
    ///
    /// A leader that is still heard counts before the status; without a recommendation in the
    /// status, the last one that was heard counts as well. A recommendation for an older generation
    /// of the object than the `observed_generation` of the status never counts, and one without
    /// containers means that none is known.
    pub fn over_status(
        &self,
        uid: &str,
        observed_generation: i64,
        has_recommendation: bool,
    ) -> Option<&Heard> {
        let counts = |heard: &&Heard| {
            let Recommendation {
                observed_generation: generation,
                recommendation,
                ..
            } = &*heard.value;
            *generation >= observed_generation && !recommendation.containers.is_empty()
        };
        let fresh = self.get_fresh(uid).filter(counts);
        fresh.or_else(|| self.get(uid).filter(|_| !has_recommendation).filter(counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(changed_at: i64) -> Heard {
        let changed_at = Timestamp::from_second(changed_at).unwrap();
        Heard {
            value: Arc::default(),
            term: 1,
            revision: 1,
            changed_at,
        }
    }

    /// What each of the leaders told, as object and time of its change, and what counts.
    fn check(told: &[&[(&str, i64)]], expected: &[(&str, i64)]) {
        let mut following: Following = Following::new(told.len(), Instant::now());
        for (part, told) in following.parts.iter_mut().zip(told) {
            part.values = told
                .iter()
                .map(|(uid, at)| ((*uid).to_owned(), heard(*at)))
                .collect();
        }
        let mut counts: Vec<_> = following
            .iter()
            .map(|(uid, heard)| (uid, heard.changed_at.as_second()))
            .collect();
        counts.sort_unstable();
        assert_eq!(counts, expected);
        for (uid, at) in expected {
            assert_eq!(following.get(uid), Some(&heard(*at)), "{uid}");
        }
        assert_eq!(following.get("unknown"), None);
    }

    #[test]
    fn each_leader_tells_of_its_own_objects() {
        check(&[], &[]);
        check(&[&[("a", 1)]], &[("a", 1)]);
        check(&[&[("a", 1)], &[("b", 2)]], &[("a", 1), ("b", 2)]);
    }

    #[test]
    fn of_an_object_that_two_tell_of_the_last_decision_counts_once() {
        check(&[&[("a", 5), ("b", 1)], &[("a", 4)]], &[("a", 5), ("b", 1)]);
        check(&[&[("a", 4)], &[("a", 5)]], &[("a", 5)]);
        check(&[&[("a", 4)], &[("a", 4)]], &[("a", 4)]);
    }

    #[test]
    fn what_a_leader_told_is_fresh_while_it_is_heard() {
        let mut following: Following = Following::new(2, Instant::now());
        for (part, at) in following.parts.iter_mut().zip([5, 4]) {
            part.values.insert("a".to_owned(), heard(at));
        }
        assert_eq!(
            (following.get_fresh("a"), following.get("a")),
            (None, Some(&heard(5)))
        );
        following.parts[1].stale_since = None;
        assert_eq!(
            (following.get_fresh("a"), following.get_fresh("b")),
            (Some(&heard(4)), None)
        );
        following.parts[0].stale_since = None;
        assert_eq!(following.get_fresh("a"), Some(&heard(5)));
    }

    /// Whether a recommendation that was heard counts instead of a status about generation 3.
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
        let heard = Heard {
            value: Arc::new(value),
            ..heard(1)
        };
        let stale_since = (!is_fresh).then(Instant::now);
        let following = Following::from_parts(vec![Part {
            values: [("a".to_owned(), heard)].into(),
            stale_since,
        }]);
        assert_eq!(
            following.over_status("a", 3, has_recommendation).is_some(),
            expected
        );
        assert_eq!(following.over_status("b", 3, has_recommendation), None);
    }

    #[test]
    fn a_recommendation_of_a_leader_that_is_heard_counts_before_the_status() {
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
    fn it_is_stale_while_one_leader_is_not_heard() {
        let (earlier, later) = (Instant::now(), Instant::now());
        let mut following: Following = Following::new(2, earlier);
        following.parts[1].stale_since = Some(later);
        assert_eq!(following.stale_since(), Some(earlier));
        following.parts[0].stale_since = None;
        assert_eq!(following.stale_since(), Some(later));
        following.parts[1].stale_since = None;
        assert_eq!(following.stale_since(), None);
    }
}

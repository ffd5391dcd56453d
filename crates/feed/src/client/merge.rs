//! Merges the messages of a leader and its successors into the received values. A reset takes
//! effect when it is complete; messages of an earlier term are refused; within a term the greater
//! revision is newer.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{bail, ensure};

use crate::topic::{Change, Stamp, Topic};

use super::subscription::{LeaderState, Received};

const NO_RESET: &str = "a stream must begin with a reset";

/// State between messages.
#[derive(Debug)]
pub(super) struct Merge<V: Topic> {
    term: u64,
    state: MergeState<V>,
}

#[derive(Debug)]
enum MergeState<V: Topic> {
    New,
    /// Parts of an unfinished reset.
    Resetting(BTreeMap<String, Received<V>>),
    Applying,
}

impl<V: Topic> Default for Merge<V> {
    fn default() -> Self {
        Self {
            term: 0,
            state: MergeState::New,
        }
    }
}

impl<V: Topic> Merge<V> {
    /// Starts a new stream and discards an unfinished reset.
    pub(super) fn begin(&mut self) {
        self.state = MergeState::New;
    }

    /// Merges a message. Returns whether the values changed. After an error the stream has to be closed.
    pub(super) fn take(
        &mut self,
        update: V::Update,
        part: &mut LeaderState<V>,
    ) -> anyhow::Result<bool> {
        let (term, change) = V::unpack(update);
        let known = self.term;
        ensure!(
            term >= known,
            "the server leads term {term}, but term {known} has begun"
        );
        self.term = term;
        match (change, &mut self.state) {
            (
                Some(Change::Reset {
                    values,
                    first,
                    complete,
                }),
                state,
            ) => {
                let mut parts = match std::mem::replace(state, MergeState::New) {
                    _ if first => BTreeMap::new(),
                    MergeState::Resetting(parts) => parts,
                    MergeState::New | MergeState::Applying => bail!(NO_RESET),
                };
                for message in values {
                    put(&mut parts, message, term);
                }
                if !complete {
                    *state = MergeState::Resetting(parts);
                    return Ok(false);
                }
                *state = MergeState::Applying;
                replace(part, parts);
                Ok(true)
            }
            (_, MergeState::New | MergeState::Resetting(_)) => bail!(NO_RESET),
            (Some(Change::Apply(values)), MergeState::Applying) => {
                let mut changed = false;
                for message in values {
                    changed |= put(&mut part.values, message, term);
                }
                Ok(changed)
            }
            (Some(Change::Delete(uids)), MergeState::Applying) => {
                let before = part.values.len();
                for uid in &uids {
                    part.values.remove(uid);
                }
                Ok(part.values.len() < before)
            }
            // A kind of change added by a later version.
            (None, MergeState::Applying) => Ok(false),
        }
    }
}

/// Replaces all values, but keeps newer ones.
fn replace<V: Topic>(part: &mut LeaderState<V>, mut parts: BTreeMap<String, Received<V>>) {
    for (uid, known) in std::mem::take(&mut part.values) {
        if parts
            .get(&uid)
            .is_some_and(|new| order(new) < order(&known))
        {
            parts.insert(uid, known);
        }
    }
    part.values = parts;
    part.stale_since = None;
}

/// Sets one value unless a newer one is known. An invalid value counts as deleted: the reader then
/// uses the status of the object.
fn put<V: Topic>(
    values: &mut BTreeMap<String, Received<V>>,
    message: V::Message,
    term: u64,
) -> bool {
    let Stamp {
        uid,
        revision,
        changed_at,
    } = V::stamp(&message);
    if values
        .get(&uid)
        .is_some_and(|known| (term, revision) < order(known))
    {
        return false;
    }
    match V::from_message(message) {
        Ok(value) => {
            values.insert(
                uid,
                Received {
                    value: Arc::new(value),
                    term,
                    revision,
                    changed_at,
                },
            );
            true
        }
        Err(error) => {
            tracing::warn!(uid, kind = V::NOUN, %error, "skipping a value that cannot be read");
            values.remove(&uid).is_some()
        }
    }
}

fn order<V: Topic>(received: &Received<V>) -> (u64, u64) {
    (received.term, received.revision)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::proto::recommendations_update::Change;
    use crate::proto::{
        self, RecommendationsApply, RecommendationsDelete, RecommendationsReset,
        RecommendationsUpdate,
    };
    use crate::recommendation::Recommendation;

    fn messages(values: &[(&str, u64)]) -> Vec<proto::Recommendation> {
        let message = |(uid, revision): &(&str, u64)| proto::Recommendation {
            uid: (*uid).to_owned(),
            revision: *revision,
            ..Default::default()
        };
        values.iter().map(message).collect()
    }

    /// Part of a reset: the first, the last, or both.
    fn part(values: &[(&str, u64)], first: bool, complete: bool) -> Change {
        Change::Reset(RecommendationsReset {
            recommendations: messages(values),
            first,
            complete,
        })
    }

    fn reset(values: &[(&str, u64)]) -> Change {
        part(values, true, true)
    }

    fn apply(values: &[(&str, u64)]) -> Change {
        Change::Apply(RecommendationsApply {
            recommendations: messages(values),
        })
    }

    fn delete(uid: &str) -> Change {
        Change::Delete(RecommendationsDelete {
            uids: vec![uid.to_owned()],
        })
    }

    struct Receiver {
        merge: Merge<Recommendation>,
        part: LeaderState,
    }

    impl Receiver {
        fn new() -> Self {
            Self {
                merge: Merge::default(),
                part: LeaderState::new(Instant::now()),
            }
        }

        fn hear(&mut self, term: u64, change: Change) -> Result<bool, String> {
            let change = Some(change);
            let update = RecommendationsUpdate { term, change };
            let taken = self.merge.take(update, &mut self.part);
            taken.map_err(|error| error.to_string())
        }

        /// Expects `uid@term.revision` of each value.
        fn check(&self, expected: &[&str]) {
            let values = self.part.values.iter();
            let values: Vec<_> = values
                .map(|(uid, received)| format!("{uid}@{}.{}", received.term, received.revision))
                .collect();
            assert_eq!(values, expected);
        }
    }

    #[test]
    fn a_reset_takes_effect_when_it_is_complete() {
        let mut hearer = Receiver::new();
        assert_eq!(hearer.hear(1, reset(&[("a", 1), ("b", 2)])), Ok(true));
        hearer.check(&["a@1.1", "b@1.2"]);
        hearer.merge.begin();
        assert_eq!(hearer.hear(2, part(&[("b", 1)], true, false)), Ok(false));
        hearer.check(&["a@1.1", "b@1.2"]);
        assert_eq!(hearer.hear(2, part(&[("c", 2)], false, true)), Ok(true));
        hearer.check(&["b@2.1", "c@2.2"]);
        assert_eq!(hearer.part.stale_since, None);
    }

    #[test]
    fn a_reset_that_was_cut_off_leaves_nothing_behind() {
        let mut hearer = Receiver::new();
        hearer.hear(1, part(&[("a", 1)], true, false)).unwrap();
        hearer.hear(1, part(&[("b", 2)], true, false)).unwrap();
        hearer.hear(1, part(&[("c", 3)], false, true)).unwrap();
        hearer.check(&["b@1.2", "c@1.3"]);
        hearer.hear(1, part(&[("a", 4)], true, false)).unwrap();
        hearer.merge.begin();
        let rest = hearer.hear(1, part(&[("b", 2)], false, true));
        assert_eq!(rest, Err(NO_RESET.to_owned()));
        hearer.check(&["b@1.2", "c@1.3"]);
    }

    #[test]
    fn changes_follow_the_reset() {
        let mut hearer = Receiver::new();
        let early = hearer.hear(1, apply(&[("a", 1)]));
        assert_eq!(early, Err(NO_RESET.to_owned()));
        hearer.hear(1, reset(&[("a", 1)])).unwrap();
        assert_eq!(hearer.hear(1, apply(&[("a", 3), ("b", 4)])), Ok(true));
        // An older revision.
        assert_eq!(hearer.hear(1, apply(&[("a", 2)])), Ok(false));
        hearer.check(&["a@1.3", "b@1.4"]);
        assert_eq!(hearer.hear(1, delete("a")), Ok(true));
        assert_eq!(hearer.hear(1, delete("a")), Ok(false));
        hearer.check(&["b@1.4"]);
    }

    #[test]
    fn messages_of_a_replaced_leader_are_refused() {
        let mut hearer = Receiver::new();
        hearer.hear(5, reset(&[("a", 1)])).unwrap();
        hearer.merge.begin();
        let earlier = "the server leads term 4, but term 5 has begun".to_owned();
        assert_eq!(hearer.hear(4, reset(&[("a", 900)])), Err(earlier));
        hearer.check(&["a@5.1"]);
    }

    #[test]
    fn a_value_that_cannot_be_read_is_no_value() {
        let mut hearer = Receiver::new();
        hearer.hear(1, reset(&[("a", 1), ("b", 2)])).unwrap();
        let mut broken = messages(&[("a", 3)]);
        let target = [("cpu".to_owned(), "much".to_owned())].into();
        broken[0].containers = vec![proto::ContainerRecommendation {
            target,
            ..Default::default()
        }];
        let recommendations = broken;
        let change = Change::Apply(RecommendationsApply { recommendations });
        hearer.hear(1, change).unwrap();
        hearer.check(&["b@1.2"]);
    }
}

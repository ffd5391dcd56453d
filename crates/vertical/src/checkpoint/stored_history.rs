//! History that was stored before this process measured anything, by checkpoint object.
//!
//! Stored history is added to what is measured here, so no sample may be in both. The content that
//! an object had when it was first seen is kept while the object exists: a VPA object that is
//! created later, or again, gets that content, not what has been written since. An object that is
//! first seen after the first sample counts only if it is older than all samples, which means that a
//! backup was restored. Otherwise this process, the leader, or another recommender wrote it from the
//! same samples.
//!
//! Upstream reads checkpoints only at its start, so a VPA object that is created later never gets
//! its history back.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::checkpoint::VerticalPodAutoscalerCheckpointStatus;
use jiff::Timestamp;
use view::{Checkpoint, ObjectKey, Table};

use super::content::time;
use super::plan::{is_of, names};

/// The checkpoint objects as they were first seen.
#[derive(Debug, Default)]
pub(crate) struct StoredHistory {
    objects: BTreeMap<ObjectKey, FirstSeen>,
    /// Time of the first sample taken here.
    measured_since: Option<Timestamp>,
}

#[derive(Debug)]
struct FirstSeen {
    checkpoint: Arc<Checkpoint>,
    is_past: bool,
}

impl StoredHistory {
    /// Sets the time of the first sample taken here. Later calls have no effect.
    pub(crate) fn measured(&mut self, since: Timestamp) {
        self.measured_since.get_or_insert(since);
    }

    /// Updates the known objects. Returns those that are gone.
    pub(crate) fn update(&mut self, now: &Table<Checkpoint>) -> Vec<Arc<Checkpoint>> {
        let is_same = |key: &ObjectKey, seen: &FirstSeen| {
            now.get(key)
                .is_some_and(|checkpoint| checkpoint.uid == seen.checkpoint.uid)
        };
        let gone = self.objects.extract_if(.., |key, seen| !is_same(key, seen));
        let gone = gone.map(|(_, seen)| seen.checkpoint).collect();
        for checkpoint in now.iter() {
            if !self.objects.contains_key(&checkpoint.key) {
                let is_past = is_past(checkpoint.status.as_ref(), self.measured_since);
                let seen = FirstSeen {
                    checkpoint: Arc::clone(checkpoint),
                    is_past,
                };
                self.objects.insert(checkpoint.key.clone(), seen);
            }
        }
        gone
    }

    /// The checkpoints that may be added to what is measured here.
    pub(crate) fn checkpoints(
        &self,
    ) -> impl Iterator<Item = (&Arc<Checkpoint>, &VerticalPodAutoscalerCheckpointStatus)> {
        let history = self.objects.values().filter(|seen| seen.is_past);
        history.filter_map(|seen| Some((&seen.checkpoint, seen.checkpoint.status.as_ref()?)))
    }

    /// The time at which a container's history was stored, if it may be added.
    pub(crate) fn stored_until(&self, vpa: &ObjectKey, container: &str) -> Option<Timestamp> {
        let named = names(vpa, container);
        let own = |seen: &&FirstSeen| is_of(&seen.checkpoint.spec, &vpa.name, container);
        let seen = named
            .iter()
            .filter_map(|key| self.objects.get(key))
            .filter(own)
            .find(|seen| seen.is_past)?;
        let status = seen.checkpoint.status.as_ref()?;
        time(status.last_update_time.as_ref())
    }
}

/// Whether a checkpoint cannot contain samples that were also taken here.
fn is_past(
    status: Option<&VerticalPodAutoscalerCheckpointStatus>,
    measured_since: Option<Timestamp>,
) -> bool {
    let Some(measured_since) = measured_since else {
        return true;
    };
    let Some(status) = status else { return false };
    let last = time(status.last_sample_start.as_ref()).or(time(status.last_update_time.as_ref()));
    last.is_some_and(|last| last < measured_since)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::fixture::{self, at};

    fn object(uid: &str, last_sample: Option<i64>, last_update: Option<i64>) -> Arc<Checkpoint> {
        let time = |second: Option<i64>| second.map(|second| Time(at(second)));
        let status = VerticalPodAutoscalerCheckpointStatus {
            last_sample_start: time(last_sample),
            last_update_time: time(last_update),
            ..Default::default()
        };
        let mut object = fixture::checkpoint("web", "main", Some(status));
        object.uid = uid.to_owned();
        Arc::new(object)
    }

    fn table(objects: &[Arc<Checkpoint>]) -> Table<Checkpoint> {
        let mut table = Table::default();
        table.reset(objects.to_vec());
        table
    }

    /// Sees each list of objects in turn; measuring begins before the second one, with a sample of
    /// second 100.
    fn check(seen: &[Vec<Arc<Checkpoint>>], expected: &[Arc<Checkpoint>]) {
        let mut history = StoredHistory::default();
        for objects in seen {
            history.update(&table(objects));
            history.measured(at(100));
        }
        let found: Vec<_> = history
            .checkpoints()
            .map(|(found, _)| Arc::clone(found))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_there_before_anything_is_measured_counts_as_it_was_then() {
        let (first, later) = (object("c1", Some(100), None), object("c1", Some(200), None));
        check(&[vec![Arc::clone(&first)]], &[Arc::clone(&first)]);
        check(&[vec![Arc::clone(&first)], vec![later]], &[first]);
    }

    #[test]
    fn what_comes_later_counts_if_it_is_older_than_all_that_was_measured() {
        for (last_sample, last_update, counts) in [
            (Some(99), Some(500), true),
            (Some(100), Some(500), false),
            (None, Some(99), true),
            (None, Some(100), false),
            (None, None, false),
        ] {
            let later = object("c1", last_sample, last_update);
            let expected = [Arc::clone(&later)];
            check(&[vec![], vec![later]], &expected[..usize::from(counts)]);
        }
    }

    #[test]
    fn an_object_that_is_made_again_is_another_one() {
        let (first, again) = (object("c1", Some(10), None), object("c2", Some(200), None));
        check(&[vec![Arc::clone(&first)], vec![Arc::clone(&again)]], &[]);
        let mut history = StoredHistory::default();
        history.update(&table(&[Arc::clone(&first)]));
        assert_eq!(history.update(&table(&[again])), [first]);
    }
}

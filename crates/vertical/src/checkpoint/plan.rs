//! Plan of a round of checkpoints: their names, and the action for each of them.
//!
//! Upstream rewrites every checkpoint each minute, changed or not. Here an object is written only
//! when its content changes.
//!
//! Upstream's name `VPA-CONTAINER` is not unique: object `a-b` with container `c` has the name of object
//! `a` with container `b-c`, and upstream overwrites one with the other. Here a container whose
//! name is taken or too long gets one that ends with a hash of both parts. The `spec` of a
//! checkpoint names its owner, upstream as well as here.

use std::collections::BTreeMap;

use api::checkpoint::{
    VerticalPodAutoscalerCheckpointSpec, VerticalPodAutoscalerCheckpointStatus, object_name,
};
use jiff::{SignedDuration, Timestamp};
use model::fnv1a;
use view::{Checkpoint, ObjectKey, Table};

use super::content::time;
use super::method_history::is_stored;
use crate::MAX_CONTAINERS;

const MAX: usize = 253;
/// Hexadecimal digits of the hash.
const DIGITS: usize = 16;

/// Whether a checkpoint belongs to this container of this VPA object.
pub fn is_of(spec: &VerticalPodAutoscalerCheckpointSpec, vpa: &str, container: &str) -> bool {
    spec.vpa_object_name == vpa && spec.container_name == container
}

/// Upstream's name, and the name with a hash.
pub fn names(vpa: &ObjectKey, container: &str) -> [ObjectKey; 2] {
    let whole = object_name(&vpa.name, container);
    let kept = whole
        .get(..MAX - DIGITS - 1)
        .unwrap_or(&whole)
        .trim_end_matches(['-', '.']);
    // No name contains a slash, so two pairs never hash the same text.
    let hash = fnv1a(format!("{}/{container}", vpa.name).as_bytes());
    let hashed = format!("{kept}-{hash:0DIGITS$x}");
    [whole, hashed].map(|name| ObjectKey::new(&vpa.namespace, name))
}

/// The key of a container's checkpoint: the existing object, or else upstream's name if it is free.
pub fn choose(checkpoints: &Table<Checkpoint>, vpa: &ObjectKey, container: &str) -> ObjectKey {
    let [whole, hashed] = names(vpa, container);
    let is_own = |checkpoint: &Checkpoint| is_of(&checkpoint.spec, &vpa.name, container);
    let has_hashed = checkpoints.get(&hashed).is_some_and(|found| is_own(found));
    let is_taken = checkpoints.get(&whole).is_some_and(|found| !is_own(found));
    if has_hashed || is_taken || whole.name.len() > MAX {
        hashed
    } else {
        whole
    }
}

/// Default retention of a history without samples.
const RETENTION: SignedDuration = SignedDuration::from_hours(8 * 24);
/// A checkpoint with more than this many times the samples known here is not replaced: what is
/// known here cannot follow from it.
const FAR_MORE: i64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointAction {
    Create,
    /// Do not create the object: its VPA object has the maximum number of checkpoints.
    TooMany,
    /// Replace the status, which has other content.
    Replace,
    /// Add the missing status.
    Fill,
    /// Leave the object, which has this content.
    Unchanged,
    /// Leave the object: it has far more samples than are known here, too recent to have expired.
    Richer,
    /// Leave the object: it has later samples than are known here, such as of forgotten pods.
    Newer,
    /// Leave the object: both names of the container belong to checkpoints of others.
    Taken,
}

impl CheckpointAction {
    pub fn is_write(self) -> bool {
        matches!(self, Self::Create | Self::Replace | Self::Fill)
    }
}

/// The action that brings `content` and `history` into the checkpoint of a container. `has_room`:
/// whether the VPA object may have one more checkpoint.
pub fn checkpoint_action(
    vpa: &str,
    container: &str,
    content: &VerticalPodAutoscalerCheckpointStatus,
    history: Option<&str>,
    object: Option<&Checkpoint>,
    has_room: bool,
    now: Timestamp,
) -> CheckpointAction {
    let Some(object) = object else {
        return if has_room {
            CheckpointAction::Create
        } else {
            CheckpointAction::TooMany
        };
    };
    if !is_of(&object.spec, vpa, container) {
        return CheckpointAction::Taken;
    }
    match &object.status {
        None => CheckpointAction::Fill,
        Some(status) if holds(status, content) && is_stored(history, object) => {
            CheckpointAction::Unchanged
        }
        Some(status) if is_newer(status, content, now) => CheckpointAction::Newer,
        Some(status) if is_richer(status, content) => CheckpointAction::Richer,
        Some(_) => CheckpointAction::Replace,
    }
}

/// Whether both are equal, except for the time at which they were written.
fn holds(
    status: &VerticalPodAutoscalerCheckpointStatus,
    content: &VerticalPodAutoscalerCheckpointStatus,
) -> bool {
    let last_update_time = content.last_update_time.clone();
    let status = status.clone();
    *content
        == VerticalPodAutoscalerCheckpointStatus {
            last_update_time,
            ..status
        }
}

fn last_sample(status: &VerticalPodAutoscalerCheckpointStatus) -> Option<Timestamp> {
    time(status.last_sample_start.as_ref())
}

/// Whether the object has samples and nothing was measured here, or whether it has far more
/// samples, the last less than [`RETENTION`] before ours. Such history was lost here, not expired.
fn is_richer(
    status: &VerticalPodAutoscalerCheckpointStatus,
    content: &VerticalPodAutoscalerCheckpointStatus,
) -> bool {
    let both = last_sample(status).zip(last_sample(content));
    let is_young = both.is_some_and(|(stored, own)| own.duration_since(stored) < RETENTION);
    let (stored, own) = (status.total_samples_count, content.total_samples_count);
    (own == 0 && stored > 0) || (is_young && stored / FAR_MORE > own)
}

/// Whether the object has later samples. Samples from the future are wrong and do not count.
fn is_newer(
    status: &VerticalPodAutoscalerCheckpointStatus,
    content: &VerticalPodAutoscalerCheckpointStatus,
    now: Timestamp,
) -> bool {
    let known = last_sample(content);
    last_sample(status)
        .is_some_and(|stored| stored <= now && known.is_none_or(|known| known < stored))
}

/// Maximum number of checkpoints of a namespace: they are written for tenants, who may make many objects
/// for one workload.
const MAX_OF_NAMESPACE: usize = 5000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredCheckpoints {
    /// Time of the least recent write.
    pub oldest: Timestamp,
    pub count: usize,
}

pub fn stored_checkpoints(
    checkpoints: &Table<Checkpoint>,
) -> BTreeMap<ObjectKey, StoredCheckpoints> {
    let mut stored = BTreeMap::new();
    for checkpoint in checkpoints.iter() {
        let status = checkpoint.status.as_ref();
        let written = status.and_then(|status| time(status.last_update_time.as_ref()));
        let oldest = written.unwrap_or(Timestamp::MIN);
        let none = StoredCheckpoints { oldest, count: 0 };
        let all = stored.entry(checkpoint.vpa()).or_insert(none);
        all.oldest = all.oldest.min(oldest);
        all.count += 1;
    }
    stored
}

/// The numbers of further checkpoints that objects may have.
#[derive(Debug)]
pub struct Rooms<'a> {
    stored: &'a BTreeMap<ObjectKey, StoredCheckpoints>,
    by_namespace: BTreeMap<&'a str, usize>,
}

impl<'a> Rooms<'a> {
    pub fn beside(stored: &'a BTreeMap<ObjectKey, StoredCheckpoints>) -> Self {
        let mut by_namespace: BTreeMap<&str, usize> = BTreeMap::new();
        for (vpa, stored) in stored {
            *by_namespace.entry(&vpa.namespace).or_default() += stored.count;
        }
        Self {
            stored,
            by_namespace,
        }
    }

    pub fn of(&self, vpa: &ObjectKey) -> usize {
        let of_object = self.stored.get(vpa).map_or(0, |stored| stored.count);
        let of_namespace = self.by_namespace.get(&*vpa.namespace).copied();
        let in_namespace = MAX_OF_NAMESPACE.saturating_sub(of_namespace.unwrap_or_default());
        MAX_CONTAINERS.saturating_sub(of_object).min(in_namespace)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::checkpoint::HistogramCheckpoint;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::fixture;
    use crate::fixture::{at, checkpoint};

    const HASHED: &str = "a-b-c-9eece1bc4331d2a5";

    /// The name for container `b-c` of object `a`, where there are checkpoints of these names,
    /// objects and containers.
    fn check_name(stored: &[(&str, &str, &str)], expected: &str) {
        let mut table = Table::default();
        for (name, vpa, container) in stored {
            let mut checkpoint = fixture::checkpoint(vpa, container, None);
            (*name).clone_into(&mut checkpoint.key.name);
            table.apply(Arc::new(checkpoint));
        }
        let chosen = choose(&table, &ObjectKey::new("shop", "a"), "b-c");
        assert_eq!(chosen.name, expected, "{stored:?}");
    }

    #[test]
    fn a_container_has_upstreams_name_unless_it_is_taken() {
        check_name(&[], "a-b-c");
        check_name(&[("a-b-c", "a", "b-c")], "a-b-c");
        check_name(&[("a-b-c", "a-b", "c")], HASHED);
    }

    #[test]
    fn a_container_keeps_the_checkpoint_that_it_has() {
        check_name(&[(HASHED, "a", "b-c")], HASHED);
        check_name(&[(HASHED, "a", "b-c"), ("a-b-c", "a", "b-c")], HASHED);
        check_name(&[(HASHED, "other", "b-c")], "a-b-c");
    }

    #[test]
    fn a_name_that_is_too_long_is_cut_and_stays_its_own() {
        let long = |last: &str| {
            let vpa = ObjectKey::new("shop", "a".repeat(240) + last);
            choose(&Table::default(), &vpa, "main-container").name
        };
        assert_eq!((long("b").len(), long("c").len()), (MAX, MAX));
        assert_ne!(long("b"), long("c"));
    }

    const NOW: i64 = 1000;
    const DAY: i64 = 86_400;

    fn status(
        written: i64,
        last_sample: Option<i64>,
        weight: f64,
    ) -> VerticalPodAutoscalerCheckpointStatus {
        VerticalPodAutoscalerCheckpointStatus {
            last_update_time: Some(Time(at(written))),
            version: "v3".to_owned(),
            cpu_histogram: HistogramCheckpoint {
                total_weight: weight,
                ..Default::default()
            },
            last_sample_start: last_sample.map(|second| Time(at(second))),
            ..Default::default()
        }
    }

    fn object(status: Option<VerticalPodAutoscalerCheckpointStatus>) -> Checkpoint {
        checkpoint("a", "b-c", status)
    }

    /// The content here: last sample at second 500, weight 1.
    #[track_caller]
    fn check(object: Option<&Checkpoint>, expected: CheckpointAction) {
        let content = status(NOW, Some(500), 1.0);
        let action =
            |has_room| checkpoint_action("a", "b-c", &content, None, object, has_room, at(NOW));
        let without_room = match expected {
            CheckpointAction::Create => CheckpointAction::TooMany,
            other => other,
        };
        assert_eq!(
            [true, false].map(action),
            [expected, without_room],
            "{object:?}"
        );
    }

    fn check_stored(status: VerticalPodAutoscalerCheckpointStatus, expected: CheckpointAction) {
        check(Some(&object(Some(status))), expected);
    }

    #[test]
    fn an_object_is_written_only_when_it_holds_something_else() {
        check(None, CheckpointAction::Create);
        check(Some(&object(None)), CheckpointAction::Fill);
        check_stored(status(1, Some(500), 1.0), CheckpointAction::Unchanged);
        check_stored(status(1, Some(500), 1.5), CheckpointAction::Replace);
        check_stored(status(1, Some(499), 1.0), CheckpointAction::Replace);
        let mut other_version = status(1, Some(1), 1.0);
        other_version.version = "v2".to_owned();
        check_stored(other_version, CheckpointAction::Replace);
    }

    #[test]
    fn an_object_is_written_when_only_the_history_of_its_method_changed() {
        let content = status(NOW, Some(500), 1.0);
        let stored = Checkpoint {
            sizing_history: Some("x".into()),
            ..object(Some(status(1, Some(500), 1.0)))
        };
        for (history, expected) in [
            (Some("x"), CheckpointAction::Unchanged),
            (None, CheckpointAction::Unchanged),
            (Some("y"), CheckpointAction::Replace),
        ] {
            let object = Some(&stored);
            let action = checkpoint_action("a", "b-c", &content, history, object, true, at(NOW));
            assert_eq!(action, expected, "{history:?}");
        }
    }

    #[test]
    fn later_samples_than_ours_stay_unless_they_are_from_the_future() {
        check_stored(status(1, Some(501), 9.0), CheckpointAction::Newer);
        check_stored(status(1, Some(NOW + 1), 9.0), CheckpointAction::Replace);
        check_stored(status(1, None, 9.0), CheckpointAction::Replace);
    }

    #[test]
    fn a_long_history_is_not_replaced_by_a_short_one_of_the_same_days() {
        let counted = |count, last_sample| VerticalPodAutoscalerCheckpointStatus {
            total_samples_count: count,
            ..status(1, Some(last_sample), 9.0)
        };
        let check = |ours, stored, age, expected| {
            let now = at(10 * DAY);
            let content = counted(ours, 10 * DAY);
            let object = object(Some(counted(stored, 10 * DAY - age)));
            let action = checkpoint_action("a", "b-c", &content, None, Some(&object), true, now);
            assert_eq!(action, expected, "{ours} {stored} {age}");
        };
        check(1, 10_000, DAY, CheckpointAction::Richer);
        check(100, 10_000, DAY, CheckpointAction::Replace);
        check(1, 100, DAY, CheckpointAction::Replace);
        check(1, 10_000, 8 * DAY, CheckpointAction::Replace);
        check(1, i64::MAX, 8 * DAY - 1, CheckpointAction::Richer);
        check(0, 1, 200 * DAY, CheckpointAction::Richer);
    }

    #[test]
    fn an_object_of_another_container_is_left_alone() {
        check(Some(&checkpoint("a-b", "c", None)), CheckpointAction::Taken);
    }

    #[test]
    fn a_vpa_object_is_as_old_as_its_oldest_checkpoint() {
        let mut table = Table::default();
        for (vpa, container, written) in
            [("a", "x", Some(30)), ("a", "y", Some(20)), ("b", "x", None)]
        {
            let status = written.map(|second| status(second, None, 0.0));
            table.apply(Arc::new(checkpoint(vpa, container, status)));
        }
        let stored = |name, oldest, count| {
            (
                ObjectKey::new("shop", name),
                StoredCheckpoints { oldest, count },
            )
        };
        let expected = [stored("a", at(20), 2), stored("b", Timestamp::MIN, 1)];
        assert_eq!(stored_checkpoints(&table), expected.into());
    }

    #[test]
    fn a_namespace_has_room_for_so_many_checkpoints() {
        let stored = |namespace: &str, name: usize, count| {
            let (key, oldest) = (ObjectKey::new(namespace, name.to_string()), Timestamp::MIN);
            (key, StoredCheckpoints { oldest, count })
        };
        let full = (0..24).map(|name| stored("full", name, MAX_CONTAINERS));
        let other = [stored("full", 24, 150), stored("other", 0, 190)];
        let stored: BTreeMap<_, _> = full.chain(other).collect();
        let rooms = Rooms::beside(&stored);
        let room = |namespace: &str, name: &str| rooms.of(&ObjectKey::new(namespace, name));
        assert_eq!([room("full", "24"), room("full", "new")], [50, 50]);
        assert_eq!(
            [room("other", "0"), room("other", "new")],
            [10, MAX_CONTAINERS]
        );
    }
}

//! Which VPA object's history is looked at first, and what has to happen to each of its
//! checkpoints.
//!
//! Upstream rewrites every checkpoint each minute, changed or not. Here an object is written only
//! when what it would hold differs from what it holds.

use std::collections::BTreeMap;
use std::time::Duration;

use api::checkpoint::VerticalPodAutoscalerCheckpointStatus;
use jiff::{SignedDuration, Timestamp};
use view::{Checkpoint, ObjectKey, Table};

use super::name::is_of;

/// The time without samples after which history is forgotten, by default.
const RETENTION: SignedDuration = SignedDuration::from_hours(8 * 24);
/// A checkpoint with more than this many times as many samples is not replaced by what cannot
/// follow from it.
const FAR_MORE: i64 = 100;

/// What has to happen to one checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// There is no such object: it is made.
    Create,
    /// There is no such object, and none is made: its VPA object has as many as it may have.
    TooMany,
    /// The object holds something else: its status is replaced.
    Replace,
    /// The object has no status yet: it gets one.
    Fill,
    /// The object holds just that.
    Unchanged,
    /// The object holds far more samples than are known here, the last of them so young that they
    /// cannot be expired: it stays.
    Richer,
    /// The object holds later samples than are known here, such as of pods that were forgotten: it
    /// stays.
    Newer,
    /// Both of the container's names are taken by checkpoints of others.
    Taken,
}

/// What has to happen to the object that should hold `content` of this container of this VPA
/// object. `has_room`: whether the VPA object may have one more checkpoint.
pub fn verdict(
    autoscaler: &str,
    container: &str,
    content: &VerticalPodAutoscalerCheckpointStatus,
    object: Option<&Checkpoint>,
    has_room: bool,
    now: Timestamp,
) -> Verdict {
    let Some(Checkpoint { spec, status, .. }) = object else {
        return if has_room {
            Verdict::Create
        } else {
            Verdict::TooMany
        };
    };
    if !is_of(spec, autoscaler, container) {
        return Verdict::Taken;
    }
    match status {
        None => Verdict::Fill,
        Some(status) if holds(status, content) => Verdict::Unchanged,
        Some(status) if is_newer(status, content, now) => Verdict::Newer,
        Some(status) if is_richer(status, content) => Verdict::Richer,
        Some(_) => Verdict::Replace,
    }
}

/// Whether both are the same but for the time at which they were written.
fn holds(
    status: &VerticalPodAutoscalerCheckpointStatus,
    content: &VerticalPodAutoscalerCheckpointStatus,
) -> bool {
    let VerticalPodAutoscalerCheckpointStatus {
        last_update_time: _,
        version,
        cpu_histogram,
        memory_histogram,
        first_sample_start,
        last_sample_start,
        total_samples_count,
    } = status;
    *version == content.version
        && *cpu_histogram == content.cpu_histogram
        && *memory_histogram == content.memory_histogram
        && *first_sample_start == content.first_sample_start
        && *last_sample_start == content.last_sample_start
        && *total_samples_count == content.total_samples_count
}

/// Whether the object holds samples and nothing was measured here, or whether it holds far more of
/// them, the last less than [`RETENTION`] before ours. What is known here should hold them then: it
/// was lost, and not forgotten for its age.
fn is_richer(
    status: &VerticalPodAutoscalerCheckpointStatus,
    content: &VerticalPodAutoscalerCheckpointStatus,
) -> bool {
    let last = |status: &VerticalPodAutoscalerCheckpointStatus| {
        status.last_sample_start.as_ref().map(|time| time.0)
    };
    let is_young = last(status)
        .zip(last(content))
        .is_some_and(|(stored, own)| own.duration_since(stored) < RETENTION);
    let (stored, own) = (status.total_samples_count, content.total_samples_count);
    (own == 0 && stored > 0) || (is_young && stored / FAR_MORE > own)
}

/// Samples from the future are wrong, and must not stand in the way of right ones.
fn is_newer(
    status: &VerticalPodAutoscalerCheckpointStatus,
    content: &VerticalPodAutoscalerCheckpointStatus,
    now: Timestamp,
) -> bool {
    let last = |status: &VerticalPodAutoscalerCheckpointStatus| {
        status.last_sample_start.as_ref().map(|time| time.0)
    };
    last(status)
        .is_some_and(|stored| stored <= now && last(content).is_none_or(|known| known < stored))
}

/// The checkpoints that a VPA object has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// When the one was written that waited longest.
    pub oldest: Timestamp,
    /// How many there are.
    pub count: usize,
}

/// The checkpoints that each VPA object has.
pub fn written(checkpoints: &Table<Checkpoint>) -> BTreeMap<ObjectKey, Written> {
    let mut written = BTreeMap::new();
    for checkpoint in checkpoints.iter() {
        let time = checkpoint
            .status
            .as_ref()
            .and_then(|status| status.last_update_time.as_ref());
        let time = time.map_or(Timestamp::MIN, |time| time.0);
        written
            .entry(checkpoint.autoscaler())
            .and_modify(|all: &mut Written| {
                *all = Written {
                    oldest: time.min(all.oldest),
                    count: all.count + 1,
                }
            })
            .or_insert(Written {
                oldest: time,
                count: 1,
            });
    }
    written
}

/// What decides when a VPA object is looked at: when it was in this term, by the steady clock, and
/// when it was written.
pub type Waited = (Option<Duration>, Option<Timestamp>);

/// The VPA objects in the order in which they are looked at: those never looked at in this term
/// first, the longest unwritten of them first, then the others by how long ago that was.
pub fn in_order(mut autoscalers: Vec<(ObjectKey, Waited)>) -> Vec<ObjectKey> {
    autoscalers
        .sort_by(|(one, waited), (other, other_waited)| (waited, one).cmp(&(other_waited, other)));
    autoscalers.into_iter().map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::checkpoint::{HistogramCheckpoint, VerticalPodAutoscalerCheckpointSpec};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    const NOW: i64 = 1000;
    const DAY: i64 = 86_400;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

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

    fn object(
        autoscaler: &str,
        container: &str,
        status: Option<VerticalPodAutoscalerCheckpointStatus>,
    ) -> Checkpoint {
        Checkpoint {
            key: ObjectKey::new("shop", "a-b-c"),
            uid: String::new(),
            created: None,
            spec: VerticalPodAutoscalerCheckpointSpec {
                vpa_object_name: autoscaler.to_owned(),
                container_name: container.to_owned(),
            },
            status,
        }
    }

    /// What is known: last sample at second 500, weight 1.
    fn check(object: Option<&Checkpoint>, expected: Verdict) {
        let content = status(NOW, Some(500), 1.0);
        assert_eq!(
            verdict("a", "b-c", &content, object, true, at(NOW)),
            expected,
            "{object:?}"
        );
        let without_room = if expected == Verdict::Create {
            Verdict::TooMany
        } else {
            expected
        };
        assert_eq!(
            verdict("a", "b-c", &content, object, false, at(NOW)),
            without_room,
            "{object:?}"
        );
    }

    #[test]
    fn an_object_is_written_only_when_it_holds_something_else() {
        check(None, Verdict::Create);
        check(Some(&object("a", "b-c", None)), Verdict::Fill);
        check(
            Some(&object("a", "b-c", Some(status(1, Some(500), 1.0)))),
            Verdict::Unchanged,
        );
        check(
            Some(&object("a", "b-c", Some(status(1, Some(500), 1.5)))),
            Verdict::Replace,
        );
        check(
            Some(&object("a", "b-c", Some(status(1, Some(499), 1.0)))),
            Verdict::Replace,
        );
        let other_version = VerticalPodAutoscalerCheckpointStatus {
            version: "v2".to_owned(),
            ..status(1, Some(1), 1.0)
        };
        check(
            Some(&object("a", "b-c", Some(other_version))),
            Verdict::Replace,
        );
    }

    #[test]
    fn later_samples_than_ours_stay_unless_they_are_from_the_future() {
        check(
            Some(&object("a", "b-c", Some(status(1, Some(501), 9.0)))),
            Verdict::Newer,
        );
        check(
            Some(&object("a", "b-c", Some(status(1, Some(NOW + 1), 9.0)))),
            Verdict::Replace,
        );
        check(
            Some(&object("a", "b-c", Some(status(1, None, 9.0)))),
            Verdict::Replace,
        );
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
            let object = object("a", "b-c", Some(counted(stored, 10 * DAY - age)));
            assert_eq!(
                verdict("a", "b-c", &content, Some(&object), true, now),
                expected,
                "{ours} {stored} {age}"
            );
        };
        check(1, 10_000, DAY, Verdict::Richer);
        check(100, 10_000, DAY, Verdict::Replace);
        check(1, 100, DAY, Verdict::Replace);
        check(1, 10_000, 8 * DAY, Verdict::Replace);
        check(1, i64::MAX, 8 * DAY - 1, Verdict::Richer);
        check(0, 1, 200 * DAY, Verdict::Richer);
    }

    #[test]
    fn an_object_of_another_container_is_left_alone() {
        check(Some(&object("a-b", "c", None)), Verdict::Taken);
    }

    #[test]
    fn a_vpa_object_is_as_old_as_its_oldest_checkpoint() {
        let mut table = Table::default();
        for (autoscaler, container, written) in
            [("a", "x", Some(30)), ("a", "y", Some(20)), ("b", "x", None)]
        {
            let status = written.map(|second| status(second, None, 0.0));
            let key = ObjectKey::new("shop", format!("{autoscaler}-{container}"));
            table.apply(Arc::new(Checkpoint {
                key,
                ..object(autoscaler, container, status)
            }));
        }
        let expected = [("a", at(20), 2), ("b", Timestamp::MIN, 1)];
        let expected = expected
            .map(|(name, oldest, count)| (ObjectKey::new("shop", name), Written { oldest, count }));
        assert_eq!(written(&table), expected.into());
    }

    #[test]
    fn the_one_that_waited_longest_comes_first() {
        let key = |name: &str| ObjectKey::new("shop", name);
        let (began, written) = (Duration::ZERO, |second| Some(at(second)));
        let looked_at = |seconds| Some(began + Duration::from_secs(seconds));
        let autoscalers = vec![
            // A clock that was ahead wrote it.
            (key("early"), (looked_at(10), written(8 * DAY))),
            (key("late"), (looked_at(30), written(30))),
            (key("written-late"), (None, written(30))),
            (key("never-b"), (None, None)),
            (key("written-early"), (None, written(10))),
            (key("never-a"), (None, None)),
        ];
        let expected: Vec<_> = [
            "never-a",
            "never-b",
            "written-early",
            "written-late",
            "early",
            "late",
        ]
        .map(key)
        .to_vec();
        assert_eq!(in_order(autoscalers), expected);
    }
}

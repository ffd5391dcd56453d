//! Unused checkpoints: those whose VPA object is gone, those of containers that were removed from
//! their workload, and those above the maximum number of container names of one object.
//!
//! Source: upstream `pkg/recommender/input/cluster_feeder.go` (`GarbageCollectCheckpoints`), which
//! keeps the second kind for ever. A checkpoint is deleted only after it was unused in two
//! consecutive rounds, so a VPA object that is deleted and created again, or a short-lived pod,
//! costs no history.

use std::collections::BTreeMap;

use jiff::Timestamp;
use view::{Checkpoint, ObjectKey, Table, Vpa};

use super::content::time;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnusedReason {
    /// No VPA object of any recommender has that name.
    NoVpa,
    NoContainer,
    /// Its VPA object has too many container names, and others were measured later.
    TooManyContainers,
}

impl UnusedReason {
    /// The label of the metric.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoVpa => "no_vpa_object",
            Self::NoContainer => "no_container",
            Self::TooManyContainers => "too_many_containers",
        }
    }

    pub const ALL: [Self; 3] = [Self::NoVpa, Self::NoContainer, Self::TooManyContainers];
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedCheckpoint {
    pub key: ObjectKey,
    pub uid: String,
    pub vpa: ObjectKey,
    pub reason: UnusedReason,
}

/// The checkpoints that are unused now. `is_abandoned`: whether the container of a checkpoint whose
/// VPA object exists was abandoned, given the time of its last sample. `is_omitted`: whether it is
/// above the maximum number of container names.
pub fn unused(
    checkpoints: &Table<Checkpoint>,
    vpas: &Table<Vpa>,
    is_abandoned: impl Fn(&Checkpoint, Option<Timestamp>) -> bool,
    is_omitted: impl Fn(&Checkpoint) -> bool,
) -> Vec<UnusedCheckpoint> {
    let reason = |checkpoint: &Checkpoint| {
        if vpas.get(&checkpoint.vpa()).is_none() {
            Some(UnusedReason::NoVpa)
        } else if is_abandoned(checkpoint, last_heard(checkpoint)) {
            Some(UnusedReason::NoContainer)
        } else {
            is_omitted(checkpoint).then_some(UnusedReason::TooManyContainers)
        }
    };
    let unused = checkpoints.iter().filter_map(|checkpoint| {
        Some(UnusedCheckpoint {
            key: checkpoint.key.clone(),
            uid: checkpoint.uid.clone(),
            vpa: checkpoint.vpa(),
            reason: reason(checkpoint)?,
        })
    });
    unused.collect()
}

/// The time of the last CPU sample; without any, the time of the write or the creation: memory may
/// have been measured until then.
fn last_heard(checkpoint: &Checkpoint) -> Option<Timestamp> {
    let status = checkpoint.status.as_ref();
    let sample = status.and_then(|status| time(status.last_sample_start.as_ref()));
    let written = status.and_then(|status| time(status.last_update_time.as_ref()));
    sample.or(written).or(checkpoint.created)
}

/// The checkpoints that were unused in the last round, by UID.
#[derive(Debug, Default)]
pub struct UnusedCandidates(BTreeMap<String, UnusedReason>);

impl UnusedCandidates {
    /// Returns the checkpoints that were unused in the last round for the same reason. The others
    /// become candidates.
    pub fn confirm(&mut self, mut unused: Vec<UnusedCheckpoint>) -> Vec<UnusedCheckpoint> {
        let now = unused
            .iter()
            .map(|unused| (unused.uid.clone(), unused.reason));
        let before = std::mem::replace(&mut self.0, now.collect());
        unused.retain(|unused| before.get(&unused.uid) == Some(&unused.reason));
        unused
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::checkpoint::VerticalPodAutoscalerCheckpointStatus;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;
    use crate::fixture::{self, at};

    fn checkpoint(vpa: &str, container: &str, last_sample: Option<i64>) -> Arc<Checkpoint> {
        let status = VerticalPodAutoscalerCheckpointStatus {
            last_sample_start: last_sample.map(|second| Time(at(second))),
            ..Default::default()
        };
        let mut checkpoint = fixture::checkpoint(vpa, container, Some(status));
        checkpoint.created = Some(at(1));
        Arc::new(checkpoint)
    }

    /// The VPA object `web` names another recommender: it counts all the same.
    fn vpas() -> Table<Vpa> {
        let another = json!({"spec": {"recommenders": [{"name": "another"}]}});
        let web = fixture::vpa("web", &another);
        let mut table = Table::default();
        table.apply(Arc::new(web));
        table
    }

    /// Containers of which nothing was heard since second 100 are abandoned, but for `main`.
    fn look(checkpoints: &[Arc<Checkpoint>]) -> Vec<UnusedCheckpoint> {
        let mut table = Table::default();
        table.reset(checkpoints.to_vec());
        let is_abandoned = |checkpoint: &Checkpoint, last_heard: Option<Timestamp>| {
            checkpoint.spec.container_name != "main" && last_heard.is_none_or(|last| last < at(100))
        };
        let is_omitted =
            |checkpoint: &Checkpoint| checkpoint.spec.container_name.starts_with("job-");
        unused(&table, &vpas(), is_abandoned, is_omitted)
    }

    #[test]
    fn checkpoints_go_with_their_vpa_object_and_with_their_container() {
        for (vpa, container, last_sample, expected) in [
            ("web", "main", Some(50), None),
            ("gone", "main", Some(500), Some(UnusedReason::NoVpa)),
            ("web", "old", Some(99), Some(UnusedReason::NoContainer)),
            ("web", "old", Some(100), None),
            ("web", "old", None, Some(UnusedReason::NoContainer)),
            (
                "web",
                "job-1",
                Some(100),
                Some(UnusedReason::TooManyContainers),
            ),
        ] {
            let checkpoint = checkpoint(vpa, container, last_sample);
            let found = look(&[Arc::clone(&checkpoint)]);
            assert!(found.iter().all(|unused| unused.key == checkpoint.key));
            let reasons = found.iter().map(|unused| unused.reason);
            assert!(reasons.eq(expected), "{vpa} {container} {last_sample:?}");
        }
    }

    #[test]
    fn only_what_is_useless_twice_in_a_row_is_collected() {
        let gone = checkpoint("gone", "main", Some(500));
        let mut candidates = UnusedCandidates::default();
        let mut look =
            |checkpoints: &[Arc<Checkpoint>]| candidates.confirm(look(checkpoints)).len();
        for (expected, why) in [(0, "a suspect"), (1, "confirmed")] {
            assert_eq!(look(&[Arc::clone(&gone)]), expected, "{why}");
        }
        assert_eq!(look(&[]), 0);
        assert_eq!(look(&[Arc::clone(&gone)]), 0, "it begins anew");
        let mut made_again = (*gone).clone();
        made_again.uid = "another".to_owned();
        assert_eq!(look(&[Arc::new(made_again)]), 0, "another object");
    }
}

//! Conflict resolution between EHPAs that target one workload: the oldest scales it. Of those
//! created in the same second, the first by name wins.
//!
//! Two HPAs over the same pods disable each other, so only the winner gets one. The cron windows of
//! the others are ignored, and so are their predictions where the winner has its own. An EHPA that
//! is being deleted is not a contender.

use std::collections::{HashMap, HashSet};

use api::ehpa::{self, CronSpec, EffectiveHorizontalPodAutoscaler, HolidaysError};
use jiff::Timestamp;
use jiff::civil::Date;
use model::{Workload, WorkloadRef};

use crate::prediction::MANAGED_BY;
use crate::table::ObjectKey;
use crate::vpa::Stripped;

/// An EHPA that targets a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender<'a> {
    pub(crate) workload: Workload<'a>,
    pub(crate) created_at: Option<Timestamp>,
    pub name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) is_terminating: bool,
}

impl<'a> Contender<'a> {
    pub fn of(object: &'a EffectiveHorizontalPodAutoscaler) -> Self {
        let metadata = &object.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        Self {
            workload: object.spec.scale_target_ref.workload(namespace),
            created_at: metadata.creation_timestamp.as_ref().map(|time| time.0),
            name: metadata.name.as_deref().unwrap_or_default(),
            uid: metadata.uid.as_deref().unwrap_or_default(),
            is_terminating: metadata.deletion_timestamp.is_some(),
        }
    }

    /// Sort key: creation time, which has whole seconds, then name.
    fn age(&self) -> (Option<Timestamp>, &'a str) {
        (self.created_at, self.name)
    }

    fn any_version(&self) -> Workload<'a> {
        let group = self
            .workload
            .api_version
            .rsplit_once('/')
            .map(|(group, _)| group);
        Workload {
            api_version: group.unwrap_or_default(),
            ..self.workload
        }
    }
}

/// The winning EHPA of each workload.
#[derive(Debug, Default)]
pub struct OldestWins<'a> {
    by_workload: HashMap<Workload<'a>, Contender<'a>>,
    uids: HashSet<&'a str>,
}

impl<'a> FromIterator<Contender<'a>> for OldestWins<'a> {
    fn from_iter<I: IntoIterator<Item = Contender<'a>>>(contenders: I) -> Self {
        let mut by_workload: HashMap<Workload, Contender> = HashMap::new();
        for contender in contenders
            .into_iter()
            .filter(|contender| !contender.is_terminating)
        {
            let first = by_workload
                .entry(contender.any_version())
                .or_insert(contender);
            if contender.age() < first.age() {
                *first = contender;
            }
        }
        let uids = by_workload
            .values()
            .map(|contender| contender.uid)
            .filter(|uid| !uid.is_empty())
            .collect();
        Self { by_workload, uids }
    }
}

impl<'a> OldestWins<'a> {
    /// Whether this EHPA scales its workload.
    pub fn is_winner(&self, contender: &Contender<'a>) -> bool {
        self.by_workload.get(&contender.any_version()) == Some(contender)
    }

    /// Name of the EHPA that wins over this one; `None` if this one wins.
    pub fn winner_over(&self, contender: &Contender<'a>) -> Option<&'a str> {
        self.by_workload
            .get(&contender.any_version())
            .filter(|first| first.age() != contender.age())
            .map(|first| first.name)
    }

    /// Sort key of predictions for the same metric: first those owned by a winning EHPA, then those
    /// of other EHPAs, then user-created ones. `controller_uid` is the owning object, `managed_by`
    /// the label [`MANAGED_BY`].
    pub fn prediction_rank(
        &self,
        controller_uid: Option<&str>,
        managed_by: Option<&str>,
    ) -> impl Ord + use<> {
        let is_first = controller_uid.is_some_and(|uid| self.uids.contains(uid));
        (!is_first, managed_by != Some(MANAGED_BY.1))
    }
}

/// An `EffectiveHorizontalPodAutoscaler` object, reduced to its cron schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct CronSchedule {
    pub key: ObjectKey,
    pub uid: String,
    /// Creation time, in whole seconds.
    pub created_at: Option<Timestamp>,
    pub is_terminating: bool,
    pub target: WorkloadRef,
    pub min_replicas: i32,
    pub crons: Vec<CronSpec>,
    /// Dates on which no window opens, or the reason why they do not parse.
    pub holidays: Result<Vec<Date>, HolidaysError>,
    /// Whether it has other metrics too.
    pub has_metrics: bool,
}

impl CronSchedule {
    pub fn from_k8s(object: EffectiveHorizontalPodAutoscaler) -> Self {
        let Stripped { key, object } = Stripped::from_k8s(object);
        let holidays = ehpa::holidays(&object);
        let min_replicas = object.spec.effective_min_replicas();
        let metadata = object.metadata;
        Self {
            uid: metadata.uid.unwrap_or_default(),
            created_at: metadata.creation_timestamp.map(|time| time.0),
            is_terminating: metadata.deletion_timestamp.is_some(),
            target: object.spec.scale_target_ref.in_namespace(&key.namespace),
            key,
            min_replicas,
            crons: object.spec.crons,
            holidays,
            has_metrics: !object.spec.metrics.is_empty(),
        }
    }

    pub fn contender(&self) -> Contender<'_> {
        Contender {
            workload: (&self.target).into(),
            created_at: self.created_at,
            name: &self.key.name,
            uid: &self.uid,
            is_terminating: self.is_terminating,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contender<'a>(name: &'a str, api_version: &'a str, created_at: &str) -> Contender<'a> {
        Contender {
            workload: Workload {
                api_version,
                kind: "Deployment",
                namespace: "shop",
                name: "web",
            },
            created_at: created_at.parse().ok(),
            name,
            uid: name,
            is_terminating: false,
        }
    }

    /// `expected`: the EHPA that wins over each.
    fn check(contenders: &[Contender], expected: &[Option<&str>]) {
        let winners: OldestWins = contenders.iter().copied().collect();
        for (contender, expected) in contenders.iter().zip(expected) {
            assert_eq!(winners.winner_over(contender), *expected, "{contender:?}");
            let wins = !contender.is_terminating && expected.is_none();
            assert_eq!(winners.is_winner(contender), wins, "{contender:?}");
        }
        assert_eq!(contenders.len(), expected.len());
    }

    #[test]
    fn of_objects_for_the_same_workload_the_oldest_scales_it() {
        let day = [
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:01Z",
            "2026-01-02T00:00:00Z",
        ];
        check(
            &[
                contender("b", "apps/v1", day[0]),
                contender("a", "apps/v1beta2", day[0]),
                contender("aa", "apps/v1", day[1]),
                contender("c", "other/v1", day[2]),
            ],
            &[Some("a"), None, Some("a"), None],
        );
        let leaving = Contender {
            is_terminating: true,
            ..contender("a", "apps/v1", day[0])
        };
        let other = contender("b", "apps/v1", day[1]);
        check(&[leaving, other], &[Some("b"), None]);
        check(&[leaving], &[None]);
    }

    #[test]
    fn predictions_rank_winner_then_other_ehpas_then_user_created() {
        let (first, second) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
        let contenders = [
            contender("a", "apps/v1", first),
            contender("b", "apps/v1", second),
        ];
        let winners: OldestWins = contenders.into_iter().collect();
        let mut all = [
            (None, None),
            (Some("b"), Some(MANAGED_BY.1)),
            (Some("a"), None),
            (Some("a"), Some(MANAGED_BY.1)),
        ];
        all.sort_by_key(|(uid, managed_by)| winners.prediction_rank(*uid, *managed_by));
        assert_eq!(
            all.map(|(uid, _)| uid),
            [Some("a"), Some("a"), Some("b"), None]
        );
    }
}

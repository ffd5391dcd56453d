//! Which of several effective autoscalers of one workload scales it: the oldest, and of those made
//! in the same second the first by name.
//!
//! Two native autoscalers of the same pods make each other stop, so only one of the objects gets
//! one. What the others say must not answer for it: not their windows, and not their predictions
//! where it has its own. One that is being deleted does not count any more.

use std::collections::{HashMap, HashSet};

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use jiff::Timestamp;
use model::Workload;

use crate::prediction::MANAGED_BY;

/// That one object is to scale a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender<'a> {
    pub(crate) workload: Workload<'a>,
    pub(crate) created_at: Option<Timestamp>,
    /// Name of the object.
    pub name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) is_terminating: bool,
}

impl<'a> Contender<'a> {
    /// What an object claims.
    pub fn of(object: &'a EffectiveHorizontalPodAutoscaler) -> Self {
        let (metadata, target) = (&object.metadata, &object.spec.scale_target_ref);
        Self {
            workload: Workload {
                api_version: &target.api_version,
                kind: &target.kind,
                namespace: metadata.namespace.as_deref().unwrap_or_default(),
                name: &target.name,
            },
            created_at: metadata.creation_timestamp.as_ref().map(|time| time.0),
            name: metadata.name.as_deref().unwrap_or_default(),
            uid: metadata.uid.as_deref().unwrap_or_default(),
            is_terminating: metadata.deletion_timestamp.is_some(),
        }
    }

    /// The API server keeps whole seconds.
    fn age(&self) -> (Option<Timestamp>, &'a str) {
        (self.created_at, self.name)
    }

    /// The workload, whatever the version of its group.
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

/// For each workload the object that scales it.
#[derive(Debug, Default)]
pub struct OldestWins<'a> {
    by_workload: HashMap<Workload<'a>, Contender<'a>>,
    uids: HashSet<&'a str>,
}

impl<'a> FromIterator<Contender<'a>> for OldestWins<'a> {
    fn from_iter<I: IntoIterator<Item = Contender<'a>>>(claims: I) -> Self {
        let mut by_workload: HashMap<Workload, Contender> = HashMap::new();
        for claim in claims.into_iter().filter(|claim| !claim.is_terminating) {
            let first = by_workload.entry(claim.any_version()).or_insert(claim);
            if claim.age() < first.age() {
                *first = claim;
            }
        }
        let uids = by_workload
            .values()
            .map(|claim| claim.uid)
            .filter(|uid| !uid.is_empty())
            .collect();
        Self { by_workload, uids }
    }
}

impl<'a> OldestWins<'a> {
    /// Whether an object is the one that scales its workload.
    pub fn is_winner(&self, claim: &Contender<'a>) -> bool {
        self.by_workload.get(&claim.any_version()) == Some(claim)
    }

    /// The name of the object that goes before one.
    pub fn winner_over(&self, claim: &Contender<'a>) -> Option<&'a str> {
        self.by_workload
            .get(&claim.any_version())
            .filter(|first| first.age() != claim.age())
            .map(|first| first.name)
    }

    /// In which order predictions of the same are asked, by who controls each and by the label that
    /// says who made it: first that of an object that scales its workload, then those of any other,
    /// then those that somebody wrote.
    pub fn prediction_rank(
        &self,
        controller_uid: Option<&str>,
        managed_by: Option<&str>,
    ) -> impl Ord + use<> {
        let is_first = controller_uid.is_some_and(|uid| self.uids.contains(uid));
        (!is_first, managed_by != Some(MANAGED_BY.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim<'a>(name: &'a str, api_version: &'a str, created_at: &str) -> Contender<'a> {
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

    /// `expected`: the one that goes before each.
    fn check(claims: &[Contender], expected: &[Option<&str>]) {
        let winners: OldestWins = claims.iter().copied().collect();
        let before: Vec<_> = claims
            .iter()
            .map(|claim| winners.winner_over(claim))
            .collect();
        assert_eq!(before, expected);
        for claim in claims {
            assert_eq!(
                winners.is_winner(claim),
                !claim.is_terminating && winners.winner_over(claim).is_none(),
                "{claim:?}"
            );
        }
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
                claim("b", "apps/v1", day[0]),
                claim("a", "apps/v1beta2", day[0]),
                claim("aa", "apps/v1", day[1]),
                claim("c", "other/v1", day[2]),
            ],
            &[Some("a"), None, Some("a"), None],
        );
        let leaving = Contender {
            is_terminating: true,
            ..claim("a", "apps/v1", day[0])
        };
        check(
            &[leaving, claim("b", "apps/v1", day[1])],
            &[Some("b"), None],
        );
        check(&[leaving], &[None]);
    }

    #[test]
    fn the_prediction_of_the_one_that_scales_goes_first_then_those_of_others_then_what_somebody_wrote()
     {
        let (first, second) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
        let winners: OldestWins = [claim("a", "apps/v1", first), claim("b", "apps/v1", second)]
            .into_iter()
            .collect();
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

//! Recommendations and checkpoints of a VPA from the histories of its pods.
//!
//! Nothing here changes the state, so any number of VPAs can be computed in parallel.
//! Source: upstream `pkg/recommender/routines/recommender.go`, `vpa.go` and
//! `pkg/recommender/checkpoint/checkpoint_writer.go`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use api::checkpoint::VerticalPodAutoscalerCheckpointStatus;
use jiff::Timestamp;
use model::{ContainerRecommendation, Explanation, Recommendation, ResourceName};
use sizing::{
    Amounts, ContainerHistory, Estimate, Publishing, WithoutUsage, cap_container,
    container_minimum, estimate, explain, policy_for,
};
use view::ObjectKey;

use super::ClusterState;
use super::matched_vpa::MatchedVpa;
use super::vpa::Vpa;
use crate::checkpoint::content::to_object;

/// Histories by container name.
type Histories<'a> = BTreeMap<&'a str, Cow<'a, ContainerHistory>>;

impl ClusterState {
    /// The recommendation for all known containers of a VPA; empty without containers,
    /// `None` if the VPA does not exist.
    pub fn recommend(&self, id: &ObjectKey) -> Option<Recommendation> {
        let matched = self.vpa(id)?;
        let histories = matched.merged();
        let estimates = self.estimates_from(matched.vpa, &histories);
        let containers = estimates
            .map(|(name, estimate)| {
                self.publishing(matched.vpa, name)
                    .container(name, &estimate)
            })
            .collect();
        Some(Recommendation { containers })
    }

    /// Whether any container of the VPA has samples. A recommendation without samples is the
    /// minimum.
    pub fn is_measured(&self, id: &ObjectKey) -> bool {
        let mut known = self.vpa(id).into_iter().flat_map(MatchedVpa::known);
        known.any(|(_, history)| !history.is_empty())
    }

    /// The checkpoints of all containers, with the peaks of open memory windows: a restart of all
    /// replicas must not lose them. A container opens another window after it, so that a day with
    /// a restart has two peaks.
    pub fn checkpoints(
        &self,
        id: &ObjectKey,
        now: Timestamp,
    ) -> Option<BTreeMap<String, VerticalPodAutoscalerCheckpointStatus>> {
        let histories = self.vpa(id)?.merged().into_iter();
        let saved = histories.map(|(name, history)| (name.to_owned(), to_object(&history, now)));
        Some(saved.collect())
    }

    /// The steps of the targets of one container; `None` if it is unknown or not sized, or the VPA's
    /// own sizing policy lacks history.
    pub fn explain(&self, id: &ObjectKey, container: &str) -> Option<Vec<Explanation>> {
        let matched = self.vpa(id)?;
        let vpa = matched.vpa;
        let histories = matched.merged();
        let is_recommended = |history: &&Cow<ContainerHistory>| {
            vpa.is_sized(container) && self.is_recommended(history)
        };
        let history = histories.get(container).filter(is_recommended)?;
        let minimum = self.minimum(vpa, &histories);
        let config = vpa.spec.vpa_method.apply(&self.config);
        let own = match vpa.own {
            Some(_) => {
                let estimate = estimate(&config, &self.shapes, minimum, history);
                Some(vpa.explain_per_vpa_policy(container, minimum, estimate)?)
            }
            None => None,
        };
        Some(explain(
            Publishing {
                config: &config,
                ..self.publishing(vpa, container)
            },
            &self.shapes,
            minimum,
            history,
            own,
        ))
    }

    /// Keeps published values, within the allowed range. Resources without samples keep them: an OOM
    /// kill before any usage sample has information on memory but not on CPU, and the minimum of CPU
    /// must not replace the published recommendation. Containers with too little history for the VPA's
    /// own sizing policy keep them where they are greater.
    pub fn keep_published(
        &self,
        id: &ObjectKey,
        recommendation: &mut Recommendation,
        published: &Recommendation,
    ) {
        let Some(matched) = self.vpa(id) else {
            return;
        };
        let found = &mut recommendation.containers;
        for before in &published.containers {
            let name = &before.container_name;
            let place = found.binary_search_by(|found| found.container_name.cmp(name));
            let lacks_history = matched.lacks_history(name);
            let index = match place {
                Ok(index) => {
                    let unmeasured = matched.unmeasured(name);
                    for resource in &unmeasured {
                        keep(&mut found[index], before, resource);
                    }
                    if lacks_history {
                        raise(&mut found[index], before);
                    } else if unmeasured.is_empty() {
                        continue;
                    }
                    index
                }
                Err(index) if lacks_history => {
                    found.insert(index, before.clone());
                    index
                }
                Err(_) => continue,
            };
            let policy = policy_for(&matched.vpa.spec.policies, name);
            cap_container(&mut found[index], policy, &self.config.max_allowed);
        }
    }

    pub(super) fn estimates_from<'a>(
        &'a self,
        vpa: &'a Vpa,
        histories: &'a Histories<'a>,
    ) -> impl Iterator<Item = (&'a str, Estimate)> {
        let minimum = self.minimum(vpa, histories);
        let config = vpa.spec.vpa_method.apply(&self.config);
        let sized = histories.iter().filter(|(name, _)| vpa.is_sized(name));
        let recommended = sized.filter(|(_, history)| self.is_recommended(history));
        recommended.filter_map(move |(name, history)| {
            let estimate = estimate(&config, &self.shapes, minimum, history);
            Some((*name, vpa.by_per_vpa_policy(name, minimum, estimate)?))
        })
    }

    fn is_recommended(&self, history: &ContainerHistory) -> bool {
        self.config.without_usage == WithoutUsage::Minimum || !history.is_empty()
    }

    /// The pod's minimum divided by its containers.
    fn minimum(&self, vpa: &Vpa, histories: &Histories) -> Amounts {
        let sized = histories.keys().filter(|name| vpa.is_sized(name));
        container_minimum(&self.config, sized.count())
    }

    fn publishing<'a>(&'a self, vpa: &'a Vpa, container: &str) -> Publishing<'a> {
        Publishing {
            config: &self.config,
            policy: policy_for(&vpa.spec.policies, container),
            whole_cores: self.config.integer_cpu && vpa.spec.integer_cpu.contains(container),
        }
    }
}

impl<'a> MatchedVpa<'a> {
    /// Whether a sized container has too little history for the VPA's own sizing policy. A pod of the
    /// VPA has, or recently had, such a container.
    fn lacks_history(self, container: &str) -> bool {
        let Some((policy, histories)) = self.vpa.method() else {
            return false;
        };
        let history = histories.get(container);
        history.is_none_or(|history| history.is_young(policy))
            && self.vpa.is_sized(container)
            && self.measured().any(|(known, _)| known == container)
    }

    /// The history of each kept container name, over all groups and checkpoints. A history with one
    /// source is borrowed.
    pub(super) fn merged(self) -> Histories<'a> {
        let shapes = &self.namespace.histories.shapes;
        let kept = self.kept_containers();
        let is_kept = |(name, _): &(&str, _)| kept.as_ref().is_none_or(|kept| kept.contains(name));
        let mut histories = Histories::new();
        for (name, history) in self.known().filter(is_kept) {
            match histories.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(Cow::Borrowed(history));
                }
                Entry::Occupied(mut entry) => {
                    if let Cow::Borrowed(first) = *entry.get() {
                        let mut merged = ContainerHistory::default();
                        merged.merge(shapes, first);
                        entry.insert(Cow::Owned(merged));
                    }
                    entry.get_mut().to_mut().merge(shapes, history);
                }
            }
        }
        histories
    }
}

fn keep(
    found: &mut ContainerRecommendation,
    before: &ContainerRecommendation,
    resource: &ResourceName,
) {
    for (found, before) in [
        (&mut found.target, &before.target),
        (&mut found.lower_bound, &before.lower_bound),
        (&mut found.upper_bound, &before.upper_bound),
        (&mut found.uncapped_target, &before.uncapped_target),
    ] {
        if let (Some(_), Some(kept)) = (found.get(resource), before.get(resource)) {
            found.insert(resource.clone(), kept.clone());
        }
    }
}

/// Raises the target to the published one if that is greater, and the upper bound to include it.
/// Resources without a recommendation stay absent.
fn raise(found: &mut ContainerRecommendation, before: &ContainerRecommendation) {
    for (found, before) in [
        (&mut found.target, &before.target),
        (&mut found.upper_bound, &before.target),
        (&mut found.uncapped_target, &before.uncapped_target),
    ] {
        for (name, quantity) in found.iter_mut() {
            if let Some(before) = before.get(name).filter(|before| **before > *quantity) {
                *quantity = before.clone();
            }
        }
    }
}

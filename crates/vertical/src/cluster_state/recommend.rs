//! Recommendations and checkpoints of a VPA from the histories of its pods.
//!
//! Nothing here changes the state, so any number of VPAs can be computed in parallel.
//! Source: upstream `pkg/recommender/routines/recommender.go`, `vpa.go` and
//! `pkg/recommender/checkpoint/checkpoint_writer.go`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use jiff::Timestamp;
use model::{Explanation, Recommendation};
use sizing::{
    Amounts, Checkpoint, ContainerHistory, Estimate, Publishing, WithoutUsage, container_minimum,
    estimate, explain, policy_for,
};
use view::ObjectKey;

use super::ClusterState;
use super::matched_vpa::MatchedVpa;
use super::vpa::Vpa;

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

    /// Target and bounds of every container before rounding and policies.
    pub fn estimates(&self, id: &ObjectKey) -> Option<BTreeMap<String, Estimate>> {
        let matched = self.vpa(id)?;
        let histories = matched.merged();
        let estimates = self.estimates_from(matched.vpa, &histories);
        Some(
            estimates
                .map(|(name, estimate)| (name.to_owned(), estimate))
                .collect(),
        )
    }

    /// The merged history of every container, including checkpoints.
    pub fn histories(&self, id: &ObjectKey) -> Option<BTreeMap<String, ContainerHistory>> {
        self.merged_as(id, ContainerHistory::clone)
    }

    /// The checkpoints of all containers, with the peaks of open memory windows: a restart of all
    /// replicas must not lose them. A container opens another window after it, so that a day with
    /// a restart has two peaks.
    pub fn checkpoints(
        &self,
        id: &ObjectKey,
        now: Timestamp,
    ) -> Option<BTreeMap<String, Checkpoint>> {
        self.merged_as(id, |history| history.save(now))
    }

    fn merged_as<T>(
        &self,
        id: &ObjectKey,
        convert: impl Fn(&ContainerHistory) -> T,
    ) -> Option<BTreeMap<String, T>> {
        let histories = self.vpa(id)?.merged().into_iter();
        let converted = histories.map(|(name, history)| (name.to_owned(), convert(&history)));
        Some(converted.collect())
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

    fn estimates_from<'a>(
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
    /// The history of each kept container name, over all groups and checkpoints. A history with one
    /// source is borrowed.
    fn merged(self) -> Histories<'a> {
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

//! Published values that are kept in a recommendation.
//!
//! Resources without samples keep them: an OOM kill before any usage sample has information on memory
//! but not on CPU, and the minimum of CPU must not replace the published recommendation. Containers
//! with too little history for the VPA's own sizing policy keep them where they are greater.

use model::{ContainerRecommendation, Recommendation, ResourceList, ResourceName};
use sizing::{ScalingMode, cap_container, policy_for};
use view::ObjectKey;

use super::ClusterState;
use super::vpa::Vpa;

impl ClusterState {
    /// Keeps the published values of resources without samples, within the allowed range.
    pub fn keep_unmeasured(
        &self,
        id: &ObjectKey,
        recommendation: &mut Recommendation,
        published: &Recommendation,
    ) {
        let Some(matched) = self.vpa(id) else {
            return;
        };
        for before in &published.containers {
            let found = &mut recommendation.containers;
            let Ok(index) = position(found, before) else {
                continue;
            };
            let unmeasured = matched.unmeasured(&before.container_name);
            for resource in &unmeasured {
                keep(&mut found[index], before, resource);
            }
            if !unmeasured.is_empty() {
                self.cap(matched.vpa, &mut found[index]);
            }
        }
    }

    /// Keeps the published values of containers without enough history, if they exceed the
    /// recommendation, within the allowed range. No effect for VPAs with the VPA's policy.
    pub fn keep_published(
        &self,
        id: &ObjectKey,
        recommendation: &mut Recommendation,
        published: &Recommendation,
    ) {
        let Some(matched) = self.vpa(id) else {
            return;
        };
        let vpa = matched.vpa;
        let Some((policy, histories)) = vpa.method() else {
            return;
        };
        for before in &published.containers {
            let name = before.container_name.as_str();
            let rules = policy_for(&vpa.spec.policies, name);
            let is_off = rules.is_some_and(|rules| rules.mode == ScalingMode::Off);
            let history = histories.get(name);
            let is_young = history.is_none_or(|history| history.is_young(policy));
            // A pod of the VPA has, or recently had, such a container.
            let is_known = || matched.measured().any(|(known, _)| known == name);
            if is_off || !is_young || !is_known() {
                continue;
            }
            let found = &mut recommendation.containers;
            let index = match position(found, before) {
                Ok(index) => {
                    raise(&mut found[index], before);
                    index
                }
                Err(index) => {
                    found.insert(index, before.clone());
                    index
                }
            };
            self.cap(vpa, &mut found[index]);
        }
    }

    fn cap(&self, vpa: &Vpa, container: &mut ContainerRecommendation) {
        let policy = policy_for(&vpa.spec.policies, &container.container_name);
        cap_container(container, policy, &self.config.max_allowed);
    }
}

/// The place of a container, or where to insert it.
fn position(
    found: &[ContainerRecommendation],
    container: &ContainerRecommendation,
) -> Result<usize, usize> {
    found.binary_search_by(|found| found.container_name.cmp(&container.container_name))
}

fn keep(
    found: &mut ContainerRecommendation,
    before: &ContainerRecommendation,
    resource: &ResourceName,
) {
    let keep_in = |found: &mut ResourceList, before: &ResourceList| {
        let kept = before
            .get(resource)
            .filter(|_| found.get(resource).is_some());
        if let Some(kept) = kept {
            found.insert(resource.clone(), kept.clone());
        }
    };
    keep_in(&mut found.target, &before.target);
    keep_in(&mut found.lower_bound, &before.lower_bound);
    keep_in(&mut found.upper_bound, &before.upper_bound);
    keep_in(&mut found.uncapped_target, &before.uncapped_target);
}

/// Raises the target to the published one if that is greater, and the upper bound to include it.
/// Resources without a recommendation stay absent.
fn raise(found: &mut ContainerRecommendation, before: &ContainerRecommendation) {
    raise_list(&mut found.target, &before.target);
    raise_list(&mut found.upper_bound, &before.target);
    raise_list(&mut found.uncapped_target, &before.uncapped_target);
}

fn raise_list(found: &mut ResourceList, before: &ResourceList) {
    for (name, quantity) in found.iter_mut() {
        if let Some(before) = before.get(name).filter(|before| **before > *quantity) {
            *quantity = before.clone();
        }
    }
}

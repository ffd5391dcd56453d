//! Published values that are kept for resources without samples.
//!
//! An OOM kill before any usage sample has information on memory but not on CPU: the minimum of CPU
//! must not replace the published recommendation.

use model::{ContainerRecommendation, Recommendation, ResourceList, ResourceName};
use sizing::{ContainerHistory, cap_container, policy_for};
use view::ObjectKey;

use super::ClusterState;
use super::limits::known;
use super::namespace::Namespace;
use super::vpa::Vpa;

impl ClusterState {
    /// Keeps the published values of resources without samples, within the allowed range.
    pub fn keep_unmeasured(
        &self,
        id: &ObjectKey,
        found: &mut Recommendation,
        published: &Recommendation,
    ) {
        let Some((namespace, vpa)) = self.vpa(id) else {
            return;
        };
        for before in &published.containers {
            let name = before.container_name.as_str();
            let Ok(index) = found
                .containers
                .binary_search_by(|found| found.container_name.as_str().cmp(name))
            else {
                continue;
            };
            let unmeasured = unmeasured(namespace, vpa, name);
            if unmeasured.is_empty() {
                continue;
            }
            let container = &mut found.containers[index];
            for resource in &unmeasured {
                keep(container, before, resource);
            }
            cap_container(
                container,
                policy_for(&vpa.spec.policies, name),
                &self.config.max_allowed,
            );
        }
    }
}

fn unmeasured(namespace: &Namespace, vpa: &Vpa, container: &str) -> Vec<ResourceName> {
    let own = known(namespace, vpa).filter(|(name, _)| *name == container);
    let own: Vec<&ContainerHistory> = own.map(|(_, history)| history).collect();
    let has_none =
        |is_empty: fn(&ContainerHistory) -> bool| own.iter().all(|history| is_empty(history));
    let cpu = has_none(|history| history.cpu.is_empty()).then_some(ResourceName::Cpu);
    let memory = has_none(|history| history.memory.is_empty()).then_some(ResourceName::Memory);
    cpu.into_iter().chain(memory).collect()
}

fn keep(
    found: &mut ContainerRecommendation,
    before: &ContainerRecommendation,
    resource: &ResourceName,
) {
    keep_in(&mut found.target, &before.target, resource);
    keep_in(&mut found.lower_bound, &before.lower_bound, resource);
    keep_in(&mut found.upper_bound, &before.upper_bound, resource);
    keep_in(
        &mut found.uncapped_target,
        &before.uncapped_target,
        resource,
    );
}

fn keep_in(found: &mut ResourceList, before: &ResourceList, resource: &ResourceName) {
    if let Some(kept) = before
        .get(resource)
        .filter(|_| found.get(resource).is_some())
    {
        found.insert(resource.clone(), kept.clone());
    }
}

//! Lookup of the recommendation in effect for a sample or an OOM kill, for `vpa_quality_*`.

use api::vpa::{ContainerScalingMode, UpdateMode};
use model::{ContainerRef, Memory, ResourceList};
use view::{ObjectKey, OomKill};

use super::RecommenderState;
use super::oom_kills::container;

/// Recommendation for a container.
#[derive(Debug, Clone, Copy)]
pub struct Recommended<'a> {
    pub update_mode: Option<UpdateMode>,
    /// Uncapped target; `None` without a recommendation.
    pub uncapped: Option<&'a ResourceList>,
}

impl RecommenderState {
    /// The recommendation of the object that selects a container; of several objects the last
    /// linked one, as upstream. `None` if the container is not sized.
    pub fn recommended(&self, container: &ContainerRef) -> Option<Recommended<'_>> {
        let ContainerRef {
            namespace,
            pod,
            container,
        } = container;
        let vpa = self
            .vpas_of(&ObjectKey::new(namespace.as_str(), pod.as_str()))
            .last()?;
        let object = &self.vpas.get(&vpa)?.vpa.object;
        let policy = object.spec.container_policy(container);
        if policy.is_some_and(|policy| policy.effective_mode() == ContainerScalingMode::Off) {
            return None;
        }
        let recommendation = object
            .status
            .as_ref()
            .and_then(|status| status.recommendation.as_ref());
        let mut containers = recommendation
            .into_iter()
            .flat_map(|recommendation| &recommendation.container_recommendations);
        let uncapped = containers.find(|recommended| recommended.container_name == *container);
        Some(Recommended {
            update_mode: object
                .spec
                .update_policy
                .as_ref()
                .and_then(|policy| policy.update_mode),
            uncapped: uncapped.map(|recommended| &recommended.uncapped_target),
        })
    }

    /// The memory peak of an OOM kill now; `None` while its pod is unknown.
    pub fn oom_peak(&self, kill: &OomKill) -> Option<Memory> {
        self.cluster.oom_peak(&container(kill), kill.memory)
    }

    /// The recommendation for an OOM-killed container.
    pub fn recommended_at(&self, kill: &OomKill) -> Option<Recommended<'_>> {
        self.recommended(&container(kill))
    }
}

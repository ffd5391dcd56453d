//! What was recommended for a container before its next sample comes: what `vpa_quality_*` hold
//! usage against.

use api::vpa::{ContainerScalingMode, UpdateMode};
use model::{ContainerRef, Memory, ResourceList};
use view::{ObjectKey, OomKill};

use super::RecommenderState;
use super::oom_kills::container;

/// What was recommended for a container.
#[derive(Debug, Clone, Copy)]
pub struct Recommended<'a> {
    /// How the object wants its pods updated, if it says so.
    pub update_mode: Option<UpdateMode>,
    /// What usage alone asks for; none where nothing is recommended yet.
    pub uncapped: Option<&'a ResourceList>,
}

impl RecommenderState {
    /// What the object says that selects a container; of several objects the last linked one, as
    /// upstream. None where no recommendation is due.
    pub fn recommended(&self, container: &ContainerRef) -> Option<Recommended<'_>> {
        let ContainerRef {
            namespace,
            pod,
            container,
        } = container;
        let autoscaler = self
            .autoscalers_of(&ObjectKey::new(namespace.as_str(), pod.as_str()))
            .last()?;
        let object = &self.autoscalers.get(&autoscaler)?.autoscaler.object;
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

    /// The peak that a kill would count as now; none while its pod is not known.
    pub fn oom_peak(&self, kill: &OomKill) -> Option<Memory> {
        self.cluster.oom_peak(&container(kill), kill.memory)
    }

    /// What was recommended for the container that was killed.
    pub fn recommended_at(&self, kill: &OomKill) -> Option<Recommended<'_>> {
        self.recommended(&container(kill))
    }
}

//! What an object means where it says nothing. The object itself is never changed: the schema has no defaults.
//!
//! Source: upstream `pkg/utils/vpa/api.go` (`GetUpdateMode`, `GetContainerResourcePolicy`, `GetContainerControlledValues`)
//! and `pkg/recommender/input/cluster_feeder.go` (selection by recommender name).

use model::ResourceName;

use super::{
    ALL_CONTAINERS, ContainerControlledValues, ContainerResourcePolicy, ContainerScalingMode, PodResourcePolicy,
    UpdateMode, VerticalPodAutoscalerSpec,
};

/// The recommender that handles objects that name none.
pub const DEFAULT_RECOMMENDER: &str = "default";

/// The resources that are sized when a policy does not say.
pub const DEFAULT_CONTROLLED_RESOURCES: [ResourceName; 2] = [ResourceName::Cpu, ResourceName::Memory];

/// How pods get what is recommended, once defaults are filled in: the deprecated Auto is Recreate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EffectiveUpdateMode {
    /// Not at all.
    Off,
    /// When they are created.
    Initial,
    /// When they are created, and by eviction.
    #[default]
    Recreate,
    /// When they are created, by resizing, else by eviction.
    InPlaceOrRecreate,
    /// When they are created, and by resizing.
    InPlace,
}

impl From<Option<UpdateMode>> for EffectiveUpdateMode {
    fn from(mode: Option<UpdateMode>) -> Self {
        match mode {
            Some(UpdateMode::Off) => Self::Off,
            Some(UpdateMode::Initial) => Self::Initial,
            Some(UpdateMode::InPlaceOrRecreate) => Self::InPlaceOrRecreate,
            Some(UpdateMode::InPlace) => Self::InPlace,
            None | Some(UpdateMode::Recreate | UpdateMode::Auto) => Self::Recreate,
        }
    }
}

impl VerticalPodAutoscalerSpec {
    /// The update mode with its default.
    pub fn effective_update_mode(&self) -> EffectiveUpdateMode {
        self.update_policy.as_ref().and_then(|policy| policy.update_mode).into()
    }

    /// The policy for a container: [`PodResourcePolicy::of`].
    pub fn container_policy(&self, container: &str) -> Option<&ContainerResourcePolicy> {
        self.resource_policy.as_ref()?.of(container)
    }

    /// Whether the recommender of this name is in charge of the object.
    pub fn is_handled_by(&self, recommender: &str) -> bool {
        let listed = self.recommenders.iter().any(|selector| selector.name == recommender);
        listed || (self.recommenders.is_empty() && recommender == DEFAULT_RECOMMENDER)
    }
}

impl PodResourcePolicy {
    /// The policy for a container: the first one with its name, else the last one named `*`.
    pub fn of(&self, container: &str) -> Option<&ContainerResourcePolicy> {
        let named = self.container_policies.iter().find(|policy| policy.container_name == container);
        named.or_else(|| self.container_policies.iter().rfind(|policy| policy.container_name == ALL_CONTAINERS))
    }
}

impl ContainerResourcePolicy {
    /// Whether the container is sized, with its default.
    pub fn effective_mode(&self) -> ContainerScalingMode {
        self.mode.unwrap_or_default()
    }

    /// Which values are changed, with its default.
    pub fn effective_controlled_values(&self) -> ContainerControlledValues {
        self.controlled_values.unwrap_or_default()
    }

    /// Whether a resource is sized: cpu and memory unless the policy lists others.
    pub fn controls(&self, resource: &ResourceName) -> bool {
        self.effective_controlled_resources().contains(resource)
    }

    /// The resources that are sized, with their default. An empty list means none.
    pub fn effective_controlled_resources(&self) -> &[ResourceName] {
        self.controlled_resources.as_deref().unwrap_or(&DEFAULT_CONTROLLED_RESOURCES)
    }
}

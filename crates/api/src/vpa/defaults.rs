//! Defaults of absent fields. The object itself is never changed: the schema has no defaults.
//!
//! Source: upstream `pkg/utils/vpa/api.go` (`GetUpdateMode`, `GetContainerResourcePolicy`,
//! `GetContainerControlledValues`) and `pkg/recommender/input/cluster_feeder.go` (selection by
//! recommender name).

use model::{Allowed, ControlledValues, ResourceName, WHOLE_POD};

use super::{
    ALL_CONTAINERS, ContainerControlledValues, ContainerResourcePolicy, ContainerScalingMode,
    PodResourcePolicy, UpdateMode, VerticalPodAutoscalerSpec,
};

/// Recommender of objects that name none.
pub const DEFAULT_RECOMMENDER: &str = "default";

/// Resources that are sized by default.
pub const DEFAULT_CONTROLLED_RESOURCES: [ResourceName; 2] =
    [ResourceName::Cpu, ResourceName::Memory];

/// Update mode with its default: the deprecated Auto is Recreate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EffectiveUpdateMode {
    /// Never changes pods.
    Off,
    /// Changes pods when they are created.
    Initial,
    /// Changes pods when they are created, and evicts them.
    #[default]
    Recreate,
    /// Changes pods when they are created, and resizes or else evicts them.
    InPlaceOrRecreate,
    /// Changes pods when they are created, and resizes them.
    InPlace,
}

impl EffectiveUpdateMode {
    /// Whether pods may be evicted.
    pub fn evicts(self) -> bool {
        matches!(self, Self::Recreate | Self::InPlaceOrRecreate)
    }
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
    /// Update mode, with its default.
    pub fn effective_update_mode(&self) -> EffectiveUpdateMode {
        self.update_policy
            .as_ref()
            .and_then(|policy| policy.update_mode)
            .into()
    }

    /// Policy of a container: [`PodResourcePolicy::of`].
    pub fn container_policy(&self, container: &str) -> Option<&ContainerResourcePolicy> {
        self.resource_policy.as_ref()?.of(container)
    }

    /// Whether the object, or its policy of a container, configures a startup boost.
    pub fn has_startup_boost(&self) -> bool {
        let policies = self.resource_policy.iter();
        let mut policies = policies.flat_map(|policy| &policy.container_policies);
        self.startup_boost.is_some() || policies.any(|policy| policy.startup_boost.is_some())
    }

    /// Whether `spec.resources` of the pods is sized, in place of the containers.
    pub fn sizes_whole_pods(&self) -> bool {
        let policy = self.container_policy(WHOLE_POD);
        policy.is_some_and(|policy| policy.mode == Some(ContainerScalingMode::Auto))
    }

    /// Whether a container is not sized: its policy has the mode Off, or the pod is sized as a whole. The
    /// pod ([`WHOLE_POD`]) is not without a policy of its own.
    pub fn is_off(&self, container: &str) -> bool {
        let is_off =
            |policy: &ContainerResourcePolicy| policy.effective_mode() == ContainerScalingMode::Off;
        self.sizes_whole_pods() != (container == WHOLE_POD)
            || self.container_policy(container).is_some_and(is_off)
    }

    /// Whether a resource of a container is sized: the policy of the container controls it, and it is
    /// not off.
    pub fn sizes(&self, container: &str, resource: &ResourceName) -> bool {
        let policy = self.container_policy(container);
        !self.is_off(container) && policy.is_none_or(|policy| policy.controls(resource))
    }

    /// Range and resources allowed by the policy of a container.
    pub fn allowed(&self, container: &str) -> Allowed<'_> {
        let Some(policy) = self.container_policy(container) else {
            return Allowed::default();
        };
        Allowed {
            min: Some(&policy.min_allowed),
            max: Some(&policy.max_allowed),
            values: match policy.effective_controlled_values() {
                ContainerControlledValues::RequestsAndLimits => ControlledValues::RequestsAndLimits,
                ContainerControlledValues::RequestsOnly => ControlledValues::RequestsOnly,
            },
        }
    }

    /// Whether the object belongs to this recommender.
    pub fn is_handled_by(&self, recommender: &str) -> bool {
        let listed = self
            .recommenders
            .iter()
            .any(|selector| selector.name == recommender);
        listed || (self.recommenders.is_empty() && recommender == DEFAULT_RECOMMENDER)
    }
}

impl PodResourcePolicy {
    /// Policy of a container: the first one with its name, else the last one named `*`; of [`WHOLE_POD`]
    /// the policy of the pod.
    pub fn of(&self, container: &str) -> Option<&ContainerResourcePolicy> {
        if container == WHOLE_POD {
            return self.pod_policy.as_ref();
        }
        let named = self
            .container_policies
            .iter()
            .find(|policy| policy.container_name == container);
        named.or_else(|| {
            self.container_policies
                .iter()
                .rfind(|policy| policy.container_name == ALL_CONTAINERS)
        })
    }
}

impl ContainerResourcePolicy {
    /// Scaling mode, with its default.
    pub fn effective_mode(&self) -> ContainerScalingMode {
        self.mode.unwrap_or_default()
    }

    /// Controlled values, with their default.
    pub fn effective_controlled_values(&self) -> ContainerControlledValues {
        self.controlled_values.unwrap_or_default()
    }

    /// Whether a resource is sized: cpu and memory unless the policy lists others.
    pub fn controls(&self, resource: &ResourceName) -> bool {
        self.effective_controlled_resources().contains(resource)
    }

    /// The sized resources, with their default. An empty list means none.
    pub fn effective_controlled_resources(&self) -> &[ResourceName] {
        self.controlled_resources
            .as_deref()
            .unwrap_or(&DEFAULT_CONTROLLED_RESOURCES)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(extra: &Value) -> VerticalPodAutoscalerSpec {
        let mut spec = json!({"targetRef": {"kind": "Deployment", "name": "web"}});
        spec.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn a_mode_that_is_absent_or_deprecated_means_recreate() {
        for (mode, expected) in [
            ("", EffectiveUpdateMode::Recreate),
            ("Auto", EffectiveUpdateMode::Recreate),
            ("Recreate", EffectiveUpdateMode::Recreate),
            ("Off", EffectiveUpdateMode::Off),
            ("Initial", EffectiveUpdateMode::Initial),
            ("InPlace", EffectiveUpdateMode::InPlace),
            ("InPlaceOrRecreate", EffectiveUpdateMode::InPlaceOrRecreate),
        ] {
            let spec = spec(&json!({"updatePolicy": {"updateMode": mode}}));
            assert_eq!(spec.effective_update_mode(), expected, "{mode}");
        }
        for policy in [json!({}), json!({"updatePolicy": {}})] {
            let mode = spec(&policy).effective_update_mode();
            assert_eq!(mode, EffectiveUpdateMode::Recreate, "{policy}");
        }
    }

    #[test]
    fn the_first_policy_by_name_beats_the_last_one_for_all() {
        let policy = |name: &str, count: i64| json!({"containerName": name, "memoryAggregationIntervalCount": count});
        let all = [
            policy("*", 1),
            policy("app", 2),
            policy("*", 3),
            policy("app", 4),
        ];
        for (policies, container, expected) in [
            (&all[..], "app", Some(2)),
            (&all[..], "other", Some(3)),
            (&all[..1], "app", Some(1)),
            (&all[1..2], "other", None),
            (&all[..], "", None),
            (&[], "app", None),
        ] {
            let spec = spec(&json!({"resourcePolicy": {"containerPolicies": policies}}));
            let found = spec
                .container_policy(container)
                .and_then(|policy| policy.memory_aggregation_interval_count);
            assert_eq!(found, expected, "{container} of {policies:?}");
        }
        assert_eq!(spec(&json!({})).container_policy("app"), None);
    }

    #[test]
    fn cpu_and_memory_are_sized_unless_the_policy_lists_others() {
        for (listed, expected) in [
            (json!(null), [true, true, false]),
            (json!(["memory"]), [false, true, false]),
            (json!(["example.com/widgets"]), [false, false, true]),
            (json!([]), [false, false, false]),
        ] {
            let policy = json!({"controlledResources": listed});
            let parsed: ContainerResourcePolicy = serde_json::from_value(policy).unwrap();
            let names = ["cpu", "memory", "example.com/widgets"];
            let found = names.map(|name| parsed.controls(&name.into()));
            assert_eq!(found, expected, "{listed}");
        }
    }

    #[test]
    fn containers_are_sized_with_their_limits_unless_the_policy_says_otherwise() {
        let silent = ContainerResourcePolicy::default();
        assert_eq!(silent.effective_mode(), ContainerScalingMode::Auto);
        assert_eq!(
            silent.effective_controlled_values(),
            ContainerControlledValues::RequestsAndLimits
        );
        let other: ContainerResourcePolicy =
            serde_json::from_value(json!({"mode": "Off", "controlledValues": "RequestsOnly"}))
                .unwrap();
        assert_eq!(other.effective_mode(), ContainerScalingMode::Off);
        assert_eq!(
            other.effective_controlled_values(),
            ContainerControlledValues::RequestsOnly
        );
    }

    #[test]
    fn the_recommender_called_default_handles_objects_that_name_none() {
        for (recommenders, recommender, expected) in [
            (&[][..], "default", true),
            (&[], "frugal", false),
            (&["frugal"], "frugal", true),
            (&["frugal"], "default", false),
            (&["frugal", "default"], "default", true),
            (&["default"], "frugal", false),
        ] {
            let named: Vec<Value> = recommenders
                .iter()
                .map(|name| json!({"name": name}))
                .collect();
            let found = spec(&json!({"recommenders": named})).is_handled_by(recommender);
            assert_eq!(found, expected, "{recommender} of {recommenders:?}");
        }
    }
}

//! Container policies of a VPA (`spec.resourcePolicy.containerPolicies`).

use model::{
    Cap, ContainerRecommendation, Quantity, Recommendation, ResourceList, ResourceName, WHOLE_POD,
};

use crate::config::MemoryRules;
use crate::instant::DAY_NS;

/// Container name of the policy for all containers without one of their own.
pub const DEFAULT_CONTAINER: &str = "*";

/// Maximum length of a memory window (100 days). Peaks are dated at the end of their window, and
/// longer ones would outweigh all other history.
const MAX_INTERVAL_NS: i64 = 100 * DAY_NS;

/// Whether a container is sized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScalingMode {
    #[default]
    Auto,
    Off,
}

/// Policy of one container, or of all others if the name is [`DEFAULT_CONTAINER`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerPolicy {
    pub container_name: String,
    pub mode: ScalingMode,
    /// Minimum recommendation; zero is no limit.
    pub min_allowed: ResourceList,
    /// Maximum recommendation; zero is no limit.
    pub max_allowed: ResourceList,
    /// Resources with recommendations; `None` means CPU and memory.
    pub controlled_resources: Option<Vec<ResourceName>>,
    /// Override of [`MemoryRules::oom_bump_up_ratio`].
    pub oom_bump_up_ratio: Option<Quantity>,
    /// Override of [`MemoryRules::oom_min_bump_up_bytes`].
    pub oom_min_bump_up: Option<Quantity>,
    /// Override of [`MemoryRules::interval_ns`], in seconds.
    pub memory_aggregation_interval_seconds: Option<i32>,
    /// Override of [`MemoryRules::interval_count`].
    pub memory_aggregation_interval_count: Option<i64>,
}

impl ContainerPolicy {
    /// Whether this resource gets recommendations.
    pub fn controls(&self, resource: &ResourceName) -> bool {
        match &self.controlled_resources {
            Some(controlled) => controlled.contains(resource),
            None => matches!(resource, ResourceName::Cpu | ResourceName::Memory),
        }
    }

    /// Whether it overrides memory rules.
    pub fn has_rules(&self) -> bool {
        self.oom_bump_up_ratio.is_some()
            || self.oom_min_bump_up.is_some()
            || self.memory_aggregation_interval_seconds.is_some()
            || self.memory_aggregation_interval_count.is_some()
    }

    /// Removes the policy's overrides of memory rules.
    pub fn clear_rules(&mut self) {
        self.oom_bump_up_ratio = None;
        self.oom_min_bump_up = None;
        self.memory_aggregation_interval_seconds = None;
        self.memory_aggregation_interval_count = None;
    }

    /// Applies this policy's overrides; invalid values are ignored.
    pub fn overlay(&self, rules: &mut MemoryRules) {
        let valid = |amount: &Option<Quantity>| amount.clone().filter(|it| !it.is_negative());
        if let Some(ratio) = valid(&self.oom_bump_up_ratio) {
            rules.oom_bump_up_ratio = ratio.milli_value() as f64 / 1000.0;
        }
        if let Some(bytes) = valid(&self.oom_min_bump_up) {
            rules.oom_min_bump_up_bytes = bytes.value() as f64;
        }
        let (seconds, count) = (
            self.memory_aggregation_interval_seconds,
            self.memory_aggregation_interval_count,
        );
        if let Some(seconds) = seconds.filter(|seconds| *seconds > 0) {
            rules.interval_ns = (i64::from(seconds) * 1_000_000_000).min(MAX_INTERVAL_NS);
        }
        if let Some(count) = count.filter(|count| *count > 0) {
            rules.interval_count = count;
        }
    }
}

/// The policy of a container: the first one with its name, else the last default one, which is not for
/// the pod as a whole.
pub fn policy_for<'a>(
    policies: &'a [ContainerPolicy],
    container: &str,
) -> Option<&'a ContainerPolicy> {
    let mut all = policies.iter();
    let named = all.clone().find(|it| it.container_name == container);
    let mut default = || all.rfind(|it| it.container_name == DEFAULT_CONTAINER);
    named.or_else(|| default().filter(|_| container != WHOLE_POD))
}

/// Caps the recommendation of every container. The global maximum applies if a policy has none for
/// a resource.
pub fn cap(
    recommendation: &mut Recommendation,
    policies: &[ContainerPolicy],
    global_max: &ResourceList,
) {
    for container in &mut recommendation.containers {
        let policy = policy_for(policies, &container.container_name);
        cap_container(container, policy, global_max);
    }
}

/// The maximum takes precedence over the minimum; zero is no limit; the uncapped target stays
/// unchanged. Source: upstream `pkg/recommender/routines/capping_post_processor.go` and
/// `pkg/utils/vpa/capping.go` (`ApplyVPAPolicy`).
pub fn cap_container(
    container: &mut ContainerRecommendation,
    policy: Option<&ContainerPolicy>,
    global_max: &ResourceList,
) {
    for list in capped_lists(container) {
        for (name, quantity) in list.iter_mut() {
            cap_quantity(quantity, name, policy, global_max);
        }
    }
}

/// Target and bounds, to which caps apply.
pub fn capped_lists(container: &mut ContainerRecommendation) -> [&mut ResourceList; 3] {
    [
        &mut container.target,
        &mut container.lower_bound,
        &mut container.upper_bound,
    ]
}

/// Caps one number. Returns the cap that changed it, if any.
pub(crate) fn cap_quantity(
    quantity: &mut Quantity,
    name: &ResourceName,
    policy: Option<&ContainerPolicy>,
    global_max: &ResourceList,
) -> Option<Cap> {
    let min = policy.and_then(|policy| policy.min_allowed.get(name));
    let own_max = policy
        .and_then(|policy| policy.max_allowed.get(name))
        .map(|max| (max, Cap::MaxAllowed));
    let max = own_max.or(global_max.get(name).map(|max| (max, Cap::GlobalMaxAllowed)));
    let mut capped_by = None;
    if let Some(min) = min.filter(|min| !min.is_zero() && *quantity < **min) {
        *quantity = min.clone();
        capped_by = Some(Cap::MinAllowed);
    }
    if let Some((max, who)) = max.filter(|(max, _)| !max.is_zero() && *quantity > **max) {
        *quantity = max.clone();
        capped_by = Some(who);
    }
    capped_by
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects the index of the policy for a container, given the policies' names in order.
    fn check(names: &[&str], container: &str, expected: Option<usize>) {
        let policy = |name: &&str| ContainerPolicy {
            container_name: (*name).to_owned(),
            ..ContainerPolicy::default()
        };
        let policies: Vec<_> = names.iter().map(policy).collect();
        let found = policy_for(&policies, container).map(std::ptr::from_ref);
        let expected = expected.map(|index| &raw const policies[index]);
        assert_eq!(found, expected, "{container} in {names:?}");
    }

    #[test]
    fn the_first_exact_name_wins_then_the_last_policy_for_all() {
        check(&[], "app", None);
        check(&["other"], "app", None);
        check(&["*", "app", "app"], "app", Some(1));
        check(&["app", "*"], "app", Some(0));
        check(&["*", "*", "other"], "app", Some(1));
        check(&["*"], WHOLE_POD, None);
    }

    #[test]
    fn without_a_list_cpu_and_memory_are_controlled_and_an_empty_list_means_none() {
        let all = ContainerPolicy::default();
        let none = ContainerPolicy {
            controlled_resources: Some(Vec::new()),
            ..ContainerPolicy::default()
        };
        assert!(all.controls(&ResourceName::Cpu) && all.controls(&ResourceName::Memory));
        assert!(!none.controls(&ResourceName::Cpu) && !none.controls(&ResourceName::Memory));
    }

    #[test]
    fn rules_that_make_no_sense_are_left_out() {
        let policy = ContainerPolicy {
            oom_bump_up_ratio: "-1".parse().ok(),
            oom_min_bump_up: "-1".parse().ok(),
            memory_aggregation_interval_seconds: Some(0),
            memory_aggregation_interval_count: Some(-1),
            ..ContainerPolicy::default()
        };
        let mut rules = MemoryRules::default();
        policy.overlay(&mut rules);
        assert_eq!(rules, MemoryRules::default());
    }
}

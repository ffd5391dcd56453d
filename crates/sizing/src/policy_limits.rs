//! Caps recommendations by the container policy and the global maximum.
//!
//! The maximum takes precedence over the minimum; zero is no limit; the uncapped target stays
//! unchanged. Source: upstream `pkg/recommender/routines/capping_post_processor.go` and
//! `pkg/utils/vpa/capping.go` (`ApplyVPAPolicy`).

use model::{Cap, ContainerRecommendation, Quantity, Recommendation, ResourceList, ResourceName};

use crate::container_policy::{ContainerPolicy, policy_for};

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

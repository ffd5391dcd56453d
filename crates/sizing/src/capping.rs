//! Keeps recommendations within what the policy of their container, and the global maximum, allow.
//!
//! The maximum wins over the minimum; zero does not limit; the uncapped target stays as it is.
//! Source: upstream `pkg/recommender/routines/capping_post_processor.go` and `pkg/utils/vpa/capping.go` (`ApplyVPAPolicy`).

use model::{ContainerRecommendation, Quantity, Recommendation, ResourceList, ResourceName};

use crate::policy::{ContainerPolicy, policy_for};

/// Caps the recommendation of every container; the global maximum stands in where a policy names none for a resource.
pub fn cap(recommendation: &mut Recommendation, policies: &[ContainerPolicy], global_max: &ResourceList) {
    for container in &mut recommendation.containers {
        let policy = policy_for(policies, &container.container_name);
        cap_container(container, policy, global_max);
    }
}

pub(crate) fn cap_container(
    container: &mut ContainerRecommendation,
    policy: Option<&ContainerPolicy>,
    global_max: &ResourceList,
) {
    let min = |name: &ResourceName| policy.and_then(|policy| policy.min_allowed.get(name));
    let max = |name: &ResourceName| policy.and_then(|policy| policy.max_allowed.get(name)).or(global_max.get(name));
    for list in [&mut container.target, &mut container.lower_bound, &mut container.upper_bound] {
        for (name, quantity) in list.iter_mut() {
            limit(quantity, min(name), max(name));
        }
    }
}

fn limit(quantity: &mut Quantity, min: Option<&Quantity>, max: Option<&Quantity>) {
    if let Some(min) = min.filter(|min| !min.is_zero() && *quantity < **min) {
        *quantity = min.clone();
    }
    if let Some(max) = max.filter(|max| !max.is_zero() && *quantity > **max) {
        *quantity = max.clone();
    }
}

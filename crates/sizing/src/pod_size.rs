//! What each container of one pod gets: a recommendation held to what the pod's namespace and the
//! owner of the workload allow, and limits in proportion.
//!
//! Source: upstream `pkg/utils/vpa/capping.go`, `pkg/utils/limitrange`,
//! `pkg/utils/vpa/limit_and_request_scaling.go` and
//! `pkg/admission-controller/resource/pod/recommendation/recommendation_provider.go`.

mod cap;
mod pod_total;
mod proportion;

use std::collections::BTreeMap;

use model::{
    Allowed, ContainerRecommendation, ControlledValues, NamespaceLimits, Quantity, Recommendation,
    ResourceList, ResourceName,
};

pub use proportion::{ProportionalLimits, proportional_limits};

/// One container of a pod as it is now.
#[derive(Clone, Copy, Debug)]
pub struct PodContainer<'a> {
    /// Its name.
    pub name: &'a str,
    /// Requests in effect: those that the kubelet reports, else those of the specification.
    pub requests: &'a ResourceList,
    /// Limits in effect.
    pub limits: &'a ResourceList,
    /// What the owner of the workload allows.
    pub allowed: Allowed<'a>,
}

/// What is recommended for one container, of which [`pod_sizes`] looks at nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The container's name.
    pub container: &'a str,
    /// What to ask for.
    pub requests: &'a ResourceList,
}

impl<'a> Target<'a> {
    /// Those of a recommendation.
    pub fn all(recommendation: &'a Recommendation) -> Vec<Self> {
        let target = |of: &'a ContainerRecommendation| Self {
            container: &of.container_name,
            requests: &of.target,
        };
        recommendation.containers.iter().map(target).collect()
    }
}

/// A recommendation held to what one pod may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CappedRecommendation {
    /// The recommendation for containers that the pod has.
    pub recommendation: Recommendation,
    /// By container, what changed its target.
    pub notes: BTreeMap<String, Vec<String>>,
}

/// What one container gets. What is not listed stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSize {
    /// New requests.
    pub requests: ResourceList,
    /// New limits.
    pub limits: ResourceList,
    /// What changed them on the way.
    pub notes: Vec<String>,
}

/// Holds a recommendation to what one pod may have: first the limits of pods in its namespace, then
/// those of containers, then the policy of each container, so that the policy wins.
///
/// An object with a resource policy but without a recommendation counts as one with an empty
/// recommendation; without either there is nothing to hold.
pub fn cap_for_pod(
    recommendation: &Recommendation,
    containers: &[PodContainer<'_>],
    limits: &NamespaceLimits,
) -> CappedRecommendation {
    hold(recommendation.containers.clone(), containers, limits)
}

/// What each container of a pod gets, in the order of `containers`.
pub fn pod_sizes(
    targets: &[Target<'_>],
    containers: &[PodContainer<'_>],
    limits: &NamespaceLimits,
) -> Vec<ContainerSize> {
    let recommended = targets.iter().map(|target| ContainerRecommendation {
        container_name: target.container.to_owned(),
        target: target.requests.clone(),
        ..ContainerRecommendation::default()
    });
    let mut capped = hold(recommended.collect(), containers, limits);
    let default = limits
        .containers
        .as_ref()
        .and_then(|limits| limits.default.as_ref());
    let target = |name: &str| targets.iter().find(|target| target.container == name);
    let sizes = containers.iter().map(|container| {
        let listed = target(container.name).map_or(container.requests, |target| target.requests);
        size(&mut capped, container, listed, default)
    });
    sizes.collect()
}

fn hold(
    mut recommended: Vec<ContainerRecommendation>,
    containers: &[PodContainer<'_>],
    limits: &NamespaceLimits,
) -> CappedRecommendation {
    if let Some(range) = &limits.pods {
        pod_total::hold(&mut recommended, containers, range);
    }
    let mut capped = CappedRecommendation::default();
    for mut recommended in recommended {
        let Some(container) = containers
            .iter()
            .find(|container| container.name == recommended.container_name)
        else {
            continue;
        };
        let notes = cap::cap(&mut recommended, container, limits.containers.as_ref());
        if !notes.is_empty() {
            capped
                .notes
                .insert(recommended.container_name.clone(), notes);
        }
        capped.recommendation.containers.push(recommended);
    }
    capped
}

/// Where upstream holds the sum over a pod, it gives zero to what is not `listed`, which is no
/// reason to take away what is requested now.
fn size(
    capped: &mut CappedRecommendation,
    container: &PodContainer<'_>,
    listed: &ResourceList,
    default_limits: Option<&ResourceList>,
) -> ContainerSize {
    let all = &capped.recommendation.containers;
    let Some(recommended) = all
        .iter()
        .find(|recommended| recommended.container_name == container.name)
    else {
        return ContainerSize::default();
    };
    let is_meant = |resource: &ResourceName, quantity: &Quantity| {
        let is_new = container.requests.get(resource).is_none();
        is_new || !quantity.is_zero() || listed.get(resource).is_some()
    };
    let requests = recommended
        .target
        .iter()
        .filter(|(resource, quantity)| is_meant(resource, quantity));
    let requests = requests
        .map(|(resource, quantity)| (resource.clone(), quantity.clone()))
        .collect();
    let mut notes = capped.notes.remove(container.name).unwrap_or_default();
    let limits = match container.allowed.values {
        ControlledValues::RequestsOnly => ResourceList::new(),
        ControlledValues::RequestsAndLimits => {
            let ProportionalLimits {
                limits,
                notes: more,
            } = proportional_limits(
                container.limits,
                container.requests,
                &requests,
                default_limits,
            );
            notes.extend(more);
            limits
        }
    };
    ContainerSize {
        requests,
        limits,
        notes,
    }
}

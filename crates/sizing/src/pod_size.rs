//! Sizes of one pod's containers: a recommendation capped by the namespace's limits and the
//! container policies, and limits in proportion.
//!
//! Source: upstream `pkg/utils/vpa/capping.go`, `pkg/utils/limitrange`,
//! `pkg/utils/vpa/limit_and_request_scaling.go` and
//! `pkg/admission-controller/resource/pod/recommendation/recommendation_provider.go`.

mod container_limits;
mod limit_mode;
mod pod_total;
mod proportion;
mod refusals;
mod whole_pod;

use std::borrow::Cow;
use std::collections::BTreeMap;

use model::{
    Allowed, ContainerRecommendation, ControlledValues, LimitModes, NamespaceLimits, Quantity,
    Recommendation, ResourceList, ResourceName, WHOLE_POD,
};

pub use limit_mode::{limit_for, limits_text};
pub use proportion::{ProportionalLimits, proportional_limits};
pub use refusals::{Refusal, revert_refused};
pub use whole_pod::{ContainerRole, ResourcesField, WholeContainer, WholePod, Written};

#[derive(Clone, Copy, Debug)]
pub struct PodContainer<'a> {
    pub name: &'a str,
    /// Effective requests: those reported by the kubelet, else those of the specification.
    pub requests: &'a ResourceList,
    pub limits: &'a ResourceList,
    /// Range and resources allowed by the container policy.
    pub allowed: Allowed<'a>,
    /// Relation of new limits to requests.
    pub limit_modes: &'a LimitModes,
}

/// Recommended requests of one container, the only part of a recommendation that [`pod_sizes`]
/// needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    pub container: &'a str,
    pub requests: &'a ResourceList,
}

impl<'a> Target<'a> {
    pub fn all(recommendation: &'a Recommendation) -> Vec<Self> {
        let target = |of: &'a ContainerRecommendation| Self {
            container: &of.container_name,
            requests: &of.target,
        };
        recommendation.containers.iter().map(target).collect()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CappedRecommendation {
    pub recommendation: Recommendation,
    /// By container, the reasons for changes of its target.
    pub notes: BTreeMap<String, Vec<String>>,
}

/// Size of one container. Absent resources stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSize {
    pub requests: ResourceList,
    pub limits: ResourceList,
    pub removed_limits: Vec<ResourceName>,
    pub notes: Vec<String>,
    /// Resources that stay unchanged although another size is recommended.
    pub refused: Vec<(ResourceName, Refusal)>,
}

impl ContainerSize {
    pub fn of(requests: ResourceList, limits: ResourceList) -> Self {
        Self {
            requests,
            limits,
            ..Self::default()
        }
    }
}

/// Caps a recommendation for one pod: first by the namespace's limits on pods, then by those on
/// containers, then by the policy of each container, so that the policy wins.
///
/// With a resource policy but without a recommendation, the recommendation counts as empty; without
/// either there is nothing to cap.
pub fn cap_for_pod(
    recommendation: &Recommendation,
    containers: &[PodContainer<'_>],
    limits: &NamespaceLimits,
) -> CappedRecommendation {
    let limits = &limits_of(containers, limits);
    cap_containers(recommendation.containers.clone(), containers, limits)
}

/// The limits that count for these containers: those on containers do not for the pod as a whole.
fn limits_of<'a>(
    containers: &[PodContainer<'_>],
    limits: &'a NamespaceLimits,
) -> Cow<'a, NamespaceLimits> {
    if containers.iter().any(|it| it.name == WHOLE_POD) {
        return Cow::Owned(NamespaceLimits {
            containers: None,
            ..limits.clone()
        });
    }
    Cow::Borrowed(limits)
}

pub fn pod_sizes(
    targets: &[Target<'_>],
    containers: &[PodContainer<'_>],
    limits: &NamespaceLimits,
) -> Vec<ContainerSize> {
    let limits = &limits_of(containers, limits);
    let recommended = targets.iter().map(|target| ContainerRecommendation {
        container_name: target.container.to_owned(),
        target: target.requests.clone(),
        ..ContainerRecommendation::default()
    });
    let mut capped = cap_containers(recommended.collect(), containers, limits);
    let target = |name: &str| targets.iter().find(|target| target.container == name);
    let sizes = containers.iter().map(|container| {
        let listed = target(container.name).map_or(container.requests, |target| target.requests);
        size(&mut capped, container, listed, limits)
    });
    sizes.collect()
}

fn cap_containers(
    mut recommended: Vec<ContainerRecommendation>,
    containers: &[PodContainer<'_>],
    limits: &NamespaceLimits,
) -> CappedRecommendation {
    if let Some(range) = &limits.pods {
        pod_total::cap_total(&mut recommended, containers, range, limits);
    }
    let mut capped = CappedRecommendation::default();
    for mut recommended in recommended {
        let Some(container) = containers
            .iter()
            .find(|container| container.name == recommended.container_name)
        else {
            continue;
        };
        let notes = container_limits::cap(&mut recommended, container, limits);
        if !notes.is_empty() {
            capped
                .notes
                .insert(recommended.container_name.clone(), notes);
        }
        capped.recommendation.containers.push(recommended);
    }
    capped
}

/// Upstream sets resources that are not `listed` to zero when it caps the sum over a pod. Zeros do
/// not remove current requests.
fn size(
    capped: &mut CappedRecommendation,
    container: &PodContainer<'_>,
    listed: &ResourceList,
    namespace: &NamespaceLimits,
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
    let meant = recommended.target.iter();
    let meant = meant.filter(|(resource, quantity)| is_meant(resource, quantity));
    let requests = meant.map(|(resource, quantity)| (resource.clone(), quantity.clone()));
    let mut size = ContainerSize::of(requests.collect(), ResourceList::default());
    size.notes = capped.notes.remove(container.name).unwrap_or_default();
    if container.allowed.values == ControlledValues::RequestsAndLimits {
        limit_mode::set_limits(&mut size, container, namespace);
    }
    size
}

//! The sizes of one pod: its VPA object's recommendation, capped for the pod, and what the webhook
//! makes of the pod's replacement.
//!
//! The formulas are in `sizing`, and the same as the webhook's. Here they get the pod, the template of
//! its controller, the policy and the namespace's limits.

use api::vpa::VerticalPodAutoscalerSpec;
use model::{
    ContainerRecommendation, LimitMode, LimitModes, NamespaceLimits, Quantity, Recommendation,
    ResourceList, ResourceName,
};
use sizing::{
    ContainerRole, ContainerSize, PodContainer, Target, WholeContainer, WholePod, Written,
    cap_for_pod, pod_sizes, revert_refused,
};
use view::{ContainerSpec, PodTemplate, Running};

use crate::resize::observed_containers::observed_containers;

static NOTHING: ResourceList = ResourceList::new();

/// The effective requests of a container: those that the kubelet reports, else those of the
/// specification.
pub(crate) fn requests(container: &ContainerSpec) -> Option<&ResourceList> {
    match &container.reported {
        Some([requests, _]) => Some(requests),
        None => container.requests.as_ref(),
    }
}

/// The effective limits of a container, by the same rule.
pub(crate) fn limits(container: &ContainerSpec) -> Option<&ResourceList> {
    match &container.reported {
        Some([_, limits]) => Some(limits),
        None => container.limits.as_ref(),
    }
}

pub(crate) fn memory_of(list: Option<&ResourceList>) -> Option<&Quantity> {
    list?.get(&ResourceName::Memory)
}

pub(crate) fn container_recommendation<'a>(
    recommendation: &'a Recommendation,
    name: &str,
) -> Option<&'a ContainerRecommendation> {
    recommendation
        .containers
        .iter()
        .find(|container| container.container_name == name)
}

/// A pod, and what decides on its size besides the recommendation.
#[derive(Clone, Copy)]
pub(crate) struct PodToSize<'a> {
    pub(crate) running: &'a Running,
    /// The template of its controller, if it is known.
    pub(crate) template: Option<&'a PodTemplate>,
    pub(crate) spec: &'a VerticalPodAutoscalerSpec,
    pub(crate) limit_modes: &'a LimitModes,
    pub(crate) namespace: &'a NamespaceLimits,
    pub(crate) native_sidecars: bool,
    /// Whether containers whose policy has the mode Off stay as they are, as in the webhook with the
    /// feature gate of startup boosts.
    pub(crate) leaves_off: bool,
}

impl PodToSize<'_> {
    pub(crate) fn capped(&self, recommendation: &Recommendation) -> Recommendation {
        let sized = sized_containers(self.running, self.native_sidecars);
        let resources = sized.map(|container| {
            let [requests, limits] = [requests(container), limits(container)];
            (
                container,
                requests.unwrap_or(&NOTHING),
                limits.unwrap_or(&NOTHING),
            )
        });
        let containers = self.containers(resources);
        let mut capped = cap_for_pod(recommendation, &containers, self.namespace).recommendation;
        capped
            .containers
            .retain(|container| !self.is_left(&container.container_name));
        // A limit on the whole pod scales each of the three by a factor of its own.
        for container in &mut capped.containers {
            let ContainerRecommendation {
                target,
                lower_bound,
                upper_bound,
                ..
            } = container;
            for (name, target) in target.iter() {
                if lower_bound.get(name).is_some_and(|bound| bound > target) {
                    lower_bound.insert(name.clone(), target.clone());
                }
                if upper_bound.get(name).is_some_and(|bound| bound < target) {
                    upper_bound.insert(name.clone(), target.clone());
                }
            }
        }
        capped
    }

    /// The size of each sized container, in the order of [`sized_containers`], as the webhook leaves it
    /// in the pod's replacement. What it leaves is as it is written.
    pub(crate) fn admitted(&self, recommendation: &Recommendation) -> Vec<ContainerSize> {
        let written = self.written();
        let mut sizes = self.unchecked(&written, recommendation);
        revert_refused(&self.whole(&written), &mut sizes, &self.namespace.items);
        let containers = sized_containers(self.running, self.native_sidecars);
        for ((size, [requests, limits]), container) in
            sizes.iter_mut().zip(&written).zip(containers)
        {
            if self.is_left(&container.name) {
                *size = ContainerSize::default();
                continue;
            }
            for (resource, _) in &size.refused {
                add_missing(&mut size.requests, requests, resource);
            }
            let requested: Vec<_> = size.requests.iter().map(|(name, _)| name.clone()).collect();
            for resource in requested
                .iter()
                .filter(|name| !size.removed_limits.contains(name))
            {
                add_missing(&mut size.limits, limits, resource);
            }
        }
        sizes
    }

    fn is_left(&self, container: &str) -> bool {
        self.leaves_off && self.spec.is_off(container)
    }

    /// The same with what the API server would refuse.
    pub(crate) fn unchecked(
        &self,
        written: &[[ResourceList; 2]],
        recommendation: &Recommendation,
    ) -> Vec<ContainerSize> {
        let sized = sized_containers(self.running, self.native_sidecars).zip(written);
        let containers = self
            .containers(sized.map(|(container, [requests, limits])| (container, requests, limits)));
        pod_sizes(&Target::all(recommendation), &containers, self.namespace)
    }

    /// Whether a replacement with these sizes would have other requests than the pod, for a resource
    /// with a recommendation.
    pub(crate) fn differs_from(
        &self,
        sizes: &[ContainerSize],
        recommendation: &Recommendation,
    ) -> bool {
        let is_observed = observed_containers(self.running);
        sized_containers(self.running, self.native_sidecars)
            .zip(sizes)
            .filter(|(container, _)| is_observed(&container.name))
            .any(|(container, size)| {
                let is_new = |name: &ResourceName| {
                    let request = requests(container).and_then(|requests| requests.get(name));
                    size.requests
                        .get(name)
                        .is_some_and(|new| Some(new) != request)
                };
                container_recommendation(recommendation, &container.name)
                    .is_some_and(|of| of.target.iter().any(|(name, _)| is_new(name)))
            })
    }

    /// Requests and limits of the replacement's containers before the webhook sizes them, in the order
    /// of [`sized_containers`]. A container that the template lacks, or to which another webhook has
    /// added limits, counts as it is.
    pub(crate) fn written(&self) -> Vec<[ResourceList; 2]> {
        let written = |container: &ContainerSpec| {
            let as_it_is =
                [requests(container), limits(container)].map(|list| list.unwrap_or(&NOTHING));
            let items = &self.namespace.items;
            let of_template = self
                .template
                .and_then(|template| template.resources_of(&container.name, items))
                .map(<[ResourceList; 2]>::from);
            let has_its_limits = |[_, of_template]: &[ResourceList; 2]| {
                let mut limits = as_it_is[1].iter();
                limits.all(|(name, _)| {
                    of_template.get(name).is_some()
                        || *self.limit_modes.of(name) != LimitMode::Proportional
                })
            };
            of_template
                .filter(has_its_limits)
                .unwrap_or_else(|| as_it_is.map(ResourceList::clone))
        };
        sized_containers(self.running, self.native_sidecars)
            .map(written)
            .collect()
    }

    /// All containers of the replacement.
    fn whole<'w>(&'w self, written: &'w [[ResourceList; 2]]) -> WholePod<'w> {
        let main = self
            .running
            .containers
            .iter()
            .map(|container| (ContainerRole::Main, container));
        let init = self.running.init_containers.iter().map(|container| {
            let role = if container.is_sidecar {
                ContainerRole::Sidecar
            } else {
                ContainerRole::Init
            };
            (role, container)
        });
        let mut sized = 0..written.len();
        let containers = main.chain(init).map(|(role, container)| {
            let is_sized = match role {
                ContainerRole::Main => true,
                ContainerRole::Sidecar => self.native_sidecars,
                ContainerRole::Init => false,
            };
            let size = if is_sized { sized.next() } else { None };
            let written = match size {
                Some(index) => Written {
                    requests: Some(&written[index][0]),
                    limits: Some(&written[index][1]),
                },
                None => Written {
                    requests: requests(container),
                    limits: limits(container),
                },
            };
            WholeContainer {
                role,
                written,
                size,
            }
        });
        WholePod {
            containers: containers.collect(),
            resources: self
                .running
                .resources
                .as_ref()
                .map(|[requests, limits]| Written {
                    requests: requests.as_ref(),
                    limits: limits.as_ref(),
                }),
        }
    }

    fn containers<'c>(
        &'c self,
        sized: impl Iterator<Item = (&'c ContainerSpec, &'c ResourceList, &'c ResourceList)>,
    ) -> Vec<PodContainer<'c>> {
        sized
            .map(|(container, requests, limits)| PodContainer {
                name: &container.name,
                requests,
                limits,
                allowed: self.spec.allowed(&container.name),
                limit_modes: self.limit_modes,
            })
            .collect()
    }
}

/// The containers that are sized: those of `spec.containers`, then with `native_sidecars` the
/// native sidecars.
pub(crate) fn sized_containers(
    running: &Running,
    native_sidecars: bool,
) -> impl Iterator<Item = &ContainerSpec> {
    let sidecars = running
        .init_containers
        .iter()
        .filter(move |container| native_sidecars && container.is_sidecar);
    running.containers.iter().chain(sidecars)
}

/// The paths of [`sized_containers`], with native sidecars, in the specification: list and index.
pub(crate) fn container_paths(running: &Running) -> impl Iterator<Item = (&'static str, usize)> {
    let sidecars = running
        .init_containers
        .iter()
        .enumerate()
        .filter(|(_, container)| container.is_sidecar);
    let sidecars = sidecars.map(|(index, _)| ("initContainers", index));
    (0..running.containers.len())
        .map(|index| ("containers", index))
        .chain(sidecars)
}

fn add_missing(list: &mut ResourceList, written: &ResourceList, resource: &ResourceName) {
    if let Some(quantity) = written
        .get(resource)
        .filter(|_| list.get(resource).is_none())
    {
        list.insert(resource.clone(), quantity.clone());
    }
}

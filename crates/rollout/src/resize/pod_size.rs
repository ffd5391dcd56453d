//! The sizes of one pod: its VPA object's recommendation, capped for the pod, and what the webhook
//! makes of the pod's replacement.
//!
//! The formulas are in `sizing`, and the same as the webhook's. Here they get the pod, the template of
//! its controller, the policy and the namespace's limits.

use api::vpa::VerticalPodAutoscalerSpec;
use json_patch::jsonptr::PointerBuf;
use model::{
    ContainerRecommendation, LimitMode, LimitModes, NamespaceLimits, Quantity, Recommendation,
    ResourceList, ResourceName,
};
use sizing::{
    ContainerRole, ContainerSize, PodContainer, Target, WholeContainer, WholePod, Written,
    cap_for_pod, pod_sizes, revert_refused,
};
use view::{ContainerSpec, PodTemplate, Running};

use super::observed_containers;

static NOTHING: ResourceList = ResourceList::new();

/// The effective requests and limits of a container: those that the kubelet reports, else those of the
/// specification.
pub(crate) fn effective(container: &ContainerSpec) -> [&ResourceList; 2] {
    let reported = container.reported.as_ref();
    reported.map_or_else(|| specified(container), <[ResourceList; 2]>::each_ref)
}

pub(crate) fn specified(container: &ContainerSpec) -> [&ResourceList; 2] {
    [&container.requests, &container.limits].map(|list| list.as_ref().unwrap_or(&NOTHING))
}

pub(crate) fn requests(container: &ContainerSpec) -> &ResourceList {
    let [requests, _] = effective(container);
    requests
}

pub(crate) fn memory_of(list: &ResourceList) -> Option<&Quantity> {
    list.get(&ResourceName::Memory)
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
        let containers = self.containers(sized.map(|it| (it, effective(it))));
        let mut capped = cap_for_pod(recommendation, &containers, self.namespace).recommendation;
        capped
            .containers
            .retain(|container| !self.is_left(&container.container_name));
        // A limit on the whole pod scales each of the three by a factor of its own.
        for container in &mut capped.containers {
            let (lower, upper) = (&mut container.lower_bound, &mut container.upper_bound);
            for (name, target) in container.target.iter() {
                if lower.get(name).is_some_and(|bound| bound > target) {
                    lower.insert(name.clone(), target.clone());
                }
                if upper.get(name).is_some_and(|bound| bound < target) {
                    upper.insert(name.clone(), target.clone());
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
        let containers = self.containers(sized.map(|(it, written)| (it, written.each_ref())));
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
                    let new = size.requests.get(name);
                    new.is_some() && new != requests(container).get(name)
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
            let as_it_is = effective(container);
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
        let sized = sized_containers(self.running, self.native_sidecars);
        let mut all: Vec<_> = sized.map(written).collect();
        if self.running.whole_of.is_some() {
            let whole = self.whole(&all);
            let requests = whole.default_requests();
            all[0][0] = requests;
        }
        all
    }

    fn whole<'w>(&'w self, written: &'w [[ResourceList; 2]]) -> WholePod<'w> {
        let parts = self.running.parts();
        // The only size is that of the pod.
        let is_whole = self.running.whole_of.is_some();
        let main = parts.containers.iter();
        let main = main.map(|container| (ContainerRole::Main, !is_whole, container));
        let init = parts.init_containers.iter().map(|container| {
            if container.is_sidecar {
                let is_sized = self.native_sidecars && !is_whole;
                (ContainerRole::Sidecar, is_sized, container)
            } else {
                (ContainerRole::Init, false, container)
            }
        });
        let mut sized = written.iter().enumerate();
        let containers = main.chain(init).map(|(role, is_sized, container)| {
            let size = if is_sized { sized.next() } else { None };
            // The kubelet reports the pod's limits for containers without their own.
            let as_it_is = if is_whole { specified } else { effective };
            let [requests, limits] =
                size.map_or_else(|| as_it_is(container), |(_, written)| written.each_ref());
            WholeContainer {
                role,
                written: Written {
                    requests: Some(requests),
                    limits: Some(limits),
                },
                size: size.map(|(index, _)| index),
            }
        });
        let containers = containers.collect();
        let resources = match (is_whole, written, &self.running.whole) {
            (true, [[requests, limits]], _) => Some(Written {
                requests: Some(requests),
                limits: Some(limits),
            }),
            (_, _, whole) => whole.as_ref().map(|of_pod| Written {
                requests: of_pod.requests.as_ref(),
                limits: of_pod.limits.as_ref(),
            }),
        };
        WholePod {
            containers,
            resources,
            is_sized: is_whole,
        }
    }

    fn containers<'c>(
        &'c self,
        sized: impl Iterator<Item = (&'c ContainerSpec, [&'c ResourceList; 2])>,
    ) -> Vec<PodContainer<'c>> {
        sized
            .map(|(container, [requests, limits])| PodContainer {
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

/// The paths of the resources of [`sized_containers`], with native sidecars, in the pod.
pub(crate) fn resource_paths(running: &Running) -> impl Iterator<Item = PointerBuf> {
    let is_whole = running.whole_of.is_some();
    let sidecars = running
        .init_containers
        .iter()
        .enumerate()
        .filter(|(_, container)| container.is_sidecar);
    let sidecars = sidecars.map(|(index, _)| ("initContainers", index));
    let containers = (0..running.containers.len()).map(|index| ("containers", index));
    containers.chain(sidecars).map(move |(list, index)| {
        if is_whole {
            return PointerBuf::from_tokens(["spec", "resources"]);
        }
        PointerBuf::from_tokens(["spec", list, &index.to_string(), "resources"])
    })
}

fn add_missing(list: &mut ResourceList, written: &ResourceList, resource: &ResourceName) {
    if let Some(quantity) = written
        .get(resource)
        .filter(|_| list.get(resource).is_none())
    {
        list.insert(resource.clone(), quantity.clone());
    }
}

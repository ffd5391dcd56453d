//! What a pod is changed to when it is created.
//!
//! Source: upstream `pkg/admission-controller/resource/pod` (`handler.go`, `patch/`).

mod object;
mod sound;
#[cfg(test)]
mod vectors;

use api::vpa::{ContainerResourcePolicy, ContainerScalingMode, EffectiveUpdateMode, VerticalPodAutoscaler};
use model::{NamespaceLimits, Recommendation, ResourceList};
use sizing::{ContainerSize, PodContainer, pod_sizes};

use crate::boost::{self, BoostError};
use crate::patch::{Map, Operation, Place};
use crate::review::Requirements;
use crate::state::Settings;

pub(crate) use object::{Container, Pod};

const UPDATES: &str = "vpaUpdates";
const OBSERVED_CONTAINERS: &str = "vpaObservedContainers";

/// The autoscaler of a pod, with what it recommends at present.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizing<'a> {
    /// The object.
    pub(crate) object: &'a VerticalPodAutoscaler,
    /// What is recommended, if anything is.
    pub(crate) recommendation: Option<&'a Recommendation>,
}

/// A container of the pod that is sized.
struct Sized<'a> {
    place: Place,
    container: &'a Container,
    /// Its resources in effect.
    effective: &'a Requirements,
}

/// The patch of a pod that `sizing` is about, in a namespace with these limits.
pub(crate) fn patch(
    pod: &Pod,
    sizing: Sizing<'_>,
    limits: &NamespaceLimits,
    settings: &Settings,
) -> Result<Vec<Operation>, BoostError> {
    let containers = sized(pod, settings.native_sidecars);
    let mut sizes = sizes(&containers, sizing, limits);
    let mut patch = Vec::new();
    if pod.metadata.annotations.is_none() {
        patch.push(Operation::annotations());
    }
    let boosts = boosts(&containers, &mut sizes, sizing.object, settings)?;
    if !pod.runs() {
        hold(pod, &containers, &mut sizes);
    }
    let mut updates = Vec::new();
    for ((sized, size), boost) in containers.iter().zip(sizes).zip(boosts) {
        if matches!(boost, Boost::LeftOut) {
            continue;
        }
        if let Boost::Given(annotation) = boost {
            patch.push(annotation);
        }
        let (operations, said) = container_patch(sized, size);
        if !operations.is_empty() {
            patch.extend(operations);
            updates.push(said);
        }
    }
    if !updates.is_empty() {
        let name = sizing.object.metadata.name.as_deref().unwrap_or_default();
        let text = format!("Pod resources updated by {name}: {}", updates.join("; "));
        patch.push(Operation::annotation(UPDATES, text));
    }
    let names: Vec<&str> = pod.spec.containers.iter().map(|container| container.name.as_str()).collect();
    patch.push(Operation::annotation(OBSERVED_CONTAINERS, names.join(", ")));
    Ok(patch)
}

fn sized(pod: &Pod, native_sidecars: bool) -> Vec<Sized<'_>> {
    let containers = pod.spec.containers.iter().enumerate();
    let containers = containers.map(|(index, container)| (Place::Container(index), container));
    let sidecars = pod.spec.init_containers.iter().flatten().enumerate();
    let sidecars = sidecars.filter(|(_, container)| native_sidecars && container.is_sidecar());
    let sidecars = sidecars.map(|(index, container)| (Place::InitContainer(index), container));
    let both = containers.chain(sidecars);
    both.map(|(place, container)| Sized { place, container, effective: pod.effective(container) }).collect()
}

fn sizes(containers: &[Sized<'_>], sizing: Sizing<'_>, limits: &NamespaceLimits) -> Vec<ContainerSize> {
    let spec = &sizing.object.spec;
    let is_off = spec.effective_update_mode() == EffectiveUpdateMode::Off;
    let Some(recommendation) = sizing.recommendation.filter(|_| !is_off) else {
        return vec![ContainerSize::default(); containers.len()];
    };
    let empty = ResourceList::new();
    let containers: Vec<_> = containers
        .iter()
        .map(|sized| PodContainer {
            name: &sized.container.name,
            requests: sized.effective.requests.as_ref().unwrap_or(&empty),
            limits: sized.effective.limits.as_ref().unwrap_or(&empty),
            allowed: spec.allowed(&sized.container.name),
        })
        .collect();
    pod_sizes(recommendation, &containers, limits)
}

/// What becomes of a container while it starts.
enum Boost {
    /// Nothing special.
    None,
    /// It gets more, and this annotation.
    Given(Operation),
    /// With the feature gate, containers whose policy is off are left out altogether.
    LeftOut,
}

fn boosts(
    containers: &[Sized<'_>],
    sizes: &mut [ContainerSize],
    object: &VerticalPodAutoscaler,
    settings: &Settings,
) -> Result<Vec<Boost>, BoostError> {
    let pairs = containers.iter().zip(sizes);
    pairs.map(|(sized, size)| boost(sized.container, size, object, settings)).collect()
}

fn boost(
    container: &Container,
    size: &mut ContainerSize,
    object: &VerticalPodAutoscaler,
    settings: &Settings,
) -> Result<Boost, BoostError> {
    if !settings.gates.startup_boost {
        return Ok(Boost::None);
    }
    let (name, spec) = (&container.name, &object.spec);
    let is_off = |policy: &ContainerResourcePolicy| policy.effective_mode() == ContainerScalingMode::Off;
    if spec.container_policy(name).is_some_and(is_off) {
        return Ok(Boost::LeftOut);
    }
    let Some(boost) = boost::boost_of(spec, name) else { return Ok(Boost::None) };
    let original = container.resources();
    boost::raise(size, boost, original, spec.allowed(name).values, settings.max_cpu_boost.as_ref())?;
    Ok(Boost::Given(boost::annotation(name, original)))
}

/// Takes back what would have the pod refused.
fn hold(pod: &Pod, containers: &[Sized<'_>], sizes: &mut [ContainerSize]) {
    for (sized, size) in containers.iter().zip(sizes.iter_mut()) {
        sound::keep_below_limits(size, sized.effective);
    }
    if let Some(resources) = &pod.spec.resources {
        let before: Vec<_> = containers.iter().map(|sized| sized.effective).collect();
        sound::keep_within_pod(sizes, &before, resources);
    }
}

/// The patch of one container, and what is said about it.
fn container_patch(sized: &Sized<'_>, size: ContainerSize) -> (Vec<Operation>, String) {
    let Sized { place, container: _, effective } = sized;
    let ContainerSize { requests, limits, notes: mut said } = size;
    let mut operations = Vec::new();
    if effective.requests.is_none() && effective.limits.is_none() {
        operations.push(place.resources());
    }
    let maps = [(Map::Requests, &effective.requests, requests), (Map::Limits, &effective.limits, limits)];
    for (map, before, amounts) in maps {
        if before.is_none() && !amounts.is_empty() {
            operations.push(place.map(map));
        }
        for (resource, quantity) in amounts.iter().filter(|(resource, _)| !resource.as_str().is_empty()) {
            operations.push(place.amount(map, resource, quantity));
            said.push(format!("{resource} {}", map.entry()));
        }
    }
    (operations, format!("{place}: {}", said.join(", ")))
}

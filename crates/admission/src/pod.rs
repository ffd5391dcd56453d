//! What a pod is changed to when it is created.
//!
//! Source: upstream `pkg/admission-controller/resource/pod` (`handler.go`, `patch/`).

mod aggregate;
mod labels;
mod limit_ranger;
mod object;
mod sized;
mod sound;
mod updates;
#[cfg(test)]
mod vectors;

use api::vpa::{
    ContainerResourcePolicy, ContainerScalingMode, EffectiveUpdateMode, VerticalPodAutoscaler,
};
use model::{NamespaceLimits, ResourceList};
use sizing::{ContainerSize, PodContainer, Target, pod_sizes};
use view::LimitRange;

use crate::boost;
pub use crate::boost::BoostError;
use crate::input::AdmissionConfig;
use crate::patch::{Map, Patch};

pub(crate) use labels::Labels;
pub(crate) use object::{Container, Pod};
use sized::{Sized, sized};
use updates::Updates;

const UPDATES: &str = "vpaUpdates";
const OBSERVED_CONTAINERS: &str = "vpaObservedContainers";

/// The autoscaler of a pod, with what it recommends at present.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizing<'a> {
    /// The object.
    pub(crate) object: &'a VerticalPodAutoscaler,
    /// What is recommended for each container, if anything is.
    pub(crate) recommendation: Option<&'a [Target<'a>]>,
}

/// The patch of a pod that `sizing` is about, in a namespace with these `LimitRange`s.
pub(crate) fn patch(
    pod: &Pod<'_>,
    sizing: Sizing<'_>,
    ranges: &[&LimitRange],
    config: &AdmissionConfig,
) -> Result<Patch, BoostError> {
    let containers = sized(pod, config.native_sidecars);
    let mut sizes = sizes(&containers, sizing, &LimitRange::together(ranges));
    let boosts = boosts(&containers, &mut sizes, sizing.object, config)?;
    if !pod.runs() {
        hold(pod, &containers, &mut sizes, ranges);
    }
    let mut patch = Patch::default();
    if pod.metadata.annotations.is_none() {
        patch.annotations();
    }
    let mut updates = Updates::by(sizing.object.metadata.name.as_deref().unwrap_or_default());
    for ((sized, size), boost) in containers.iter().zip(sizes).zip(boosts) {
        if matches!(boost, Boost::LeftOut) {
            continue;
        }
        if let Boost::Given((name, text)) = boost {
            patch.annotation(&name, text);
        }
        container_patch(&mut patch, &mut updates, sized, &size);
    }
    if let Some(text) = updates.into_text() {
        patch.annotation(UPDATES, text);
    }
    let names: Vec<&str> = containers
        .iter()
        .map(|sized| &*sized.container.name)
        .collect();
    patch.annotation(OBSERVED_CONTAINERS, names.join(", "));
    Ok(patch)
}

fn sizes(
    containers: &[Sized<'_>],
    sizing: Sizing<'_>,
    limits: &NamespaceLimits,
) -> Vec<ContainerSize> {
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
    /// It gets more, and an annotation of this name and text.
    Given((String, String)),
    /// With the feature gate, containers whose policy is off are left out altogether.
    LeftOut,
}

fn boosts(
    containers: &[Sized<'_>],
    sizes: &mut [ContainerSize],
    object: &VerticalPodAutoscaler,
    config: &AdmissionConfig,
) -> Result<Vec<Boost>, BoostError> {
    let pairs = containers.iter().zip(sizes);
    pairs
        .map(|(sized, size)| boost(sized.container, size, object, config))
        .collect()
}

fn boost(
    container: &Container<'_>,
    size: &mut ContainerSize,
    object: &VerticalPodAutoscaler,
    config: &AdmissionConfig,
) -> Result<Boost, BoostError> {
    if !config.gates.cpu_startup_boost {
        return Ok(Boost::None);
    }
    let (name, spec) = (&container.name, &object.spec);
    let is_off =
        |policy: &ContainerResourcePolicy| policy.effective_mode() == ContainerScalingMode::Off;
    if spec.container_policy(name).is_some_and(is_off) {
        *size = ContainerSize::default();
        return Ok(Boost::LeftOut);
    }
    let Some(boost) = boost::boost_of(spec, name) else {
        return Ok(Boost::None);
    };
    let original = container.resources();
    boost::raise(
        size,
        boost,
        original,
        spec.allowed(name).values,
        config.max_cpu_boost.as_ref(),
    )?;
    Ok(Boost::Given(boost::annotation(name, original)))
}

/// Takes back what would have the pod refused: first from single containers, then from all of them.
fn hold(
    pod: &Pod<'_>,
    containers: &[Sized<'_>],
    sizes: &mut [ContainerSize],
    ranges: &[&LimitRange],
) {
    for (sized, size) in containers.iter().zip(sizes.iter_mut()) {
        sound::keep_below_limits(size, sized.effective);
    }
    limit_ranger::hold(pod, containers, sizes, ranges);
    sound::keep_within_pod(pod, containers, sizes);
}

/// Patches one container, and says what was updated.
fn container_patch(
    patch: &mut Patch,
    updates: &mut Updates,
    sized: &Sized<'_>,
    size: &ContainerSize,
) {
    let Sized {
        place,
        container,
        effective,
    } = *sized;
    let ContainerSize {
        requests,
        limits,
        notes,
    } = size;
    let before = patch.len();
    updates.begin(place);
    for note in notes {
        updates.say(format_args!("{note}"));
    }
    // What else is there must not be replaced.
    if effective.requests.is_none()
        && effective.limits.is_none()
        && !container.resources().has_others
    {
        patch.resources(place);
    }
    let maps = [
        (Map::Requests, &effective.requests, requests),
        (Map::Limits, &effective.limits, limits),
    ];
    for (map, before, amounts) in maps {
        if before.is_none() && !amounts.is_empty() {
            patch.map(place, map);
        }
        for (resource, quantity) in amounts
            .iter()
            .filter(|(resource, _)| !resource.as_str().is_empty())
        {
            patch.amount(place, map, resource, quantity);
            updates.say(format_args!("{resource} {}", map.entry()));
        }
    }
    if patch.len() == before {
        updates.take_back();
    }
}

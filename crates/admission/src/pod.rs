//! The patch of a pod that is being created.
//!
//! Source: upstream `pkg/admission-controller/resource/pod` (`handler.go`, `patch/`).

mod object;
#[cfg(test)]
mod vectors;

use api::limit_mode::{LIMITS, limit_modes};
use api::pod_annotations::{OBSERVED_CONTAINERS, UPDATES};
use api::vpa::{EffectiveUpdateMode, VerticalPodAutoscaler, VerticalPodAutoscalerSpec};
use model::{LimitMode, LimitModes, NamespaceLimits, ResourceList, ResourceName};
use serde_json::{Value, json};
use sizing::{
    ContainerSize, PodContainer, ResourcesField, Target, limits_text, pod_sizes, revert_refused,
};

use super::patch::{ContainerPath, Patch};
use crate::input::AdmissionConfig;
use crate::startup_boost::{self, BoostError};

pub(crate) use object::{Labels, Pod};
use object::{TargetContainer, target_containers, whole_pod};

/// Note of a container without its boost.
const BOOST_REFUSED: &str = "cpu: no startup boost since the API server would refuse the pod";

/// The patch of a pod that the VPA `object` selects, in a namespace with these limits.
/// `recommendation` is the current one of each container, if any.
pub(crate) fn patch(
    pod: &Pod<'_>,
    object: &VerticalPodAutoscaler,
    recommendation: Option<&[Target<'_>]>,
    namespace: &NamespaceLimits,
    config: &AdmissionConfig,
) -> Result<Patch, BoostError> {
    let mut containers = target_containers(pod, config.native_sidecars);
    let observed: Vec<&str> = containers.iter().map(|target| target.name).collect();
    let of_pod = pod.with_default_requests();
    if object.spec.sizes_whole_pods() {
        let is_sized = !pod.is_windows();
        containers = is_sized
            .then(|| whole_pod(pod, &of_pod))
            .into_iter()
            .collect();
    }
    let modes = limit_modes(object).unwrap_or_default();
    let whole = pod.whole(&containers);
    // Upstream's recorded patches are of pods with a status, whose resources it does not check.
    let admit = |sizes: &mut [ContainerSize]| {
        if !pod.has_container_statuses() {
            revert_refused(&whole, sizes, &namespace.items);
        }
    };
    let mut sizes = sizes(&containers, &object.spec, recommendation, &modes, namespace);
    admit(&mut sizes);
    let limit_mode = &modes.cpu;
    let boosts = boosts(&containers, &mut sizes, object, limit_mode, config, admit)?;
    let mut patch = Patch::default();
    if pod.metadata.annotations.is_none() {
        patch.add(["metadata", "annotations"], json!({}));
    }
    let names = containers.iter().map(|target| target.name);
    let limits = limits_text(&modes, names.zip(&sizes));
    let mut updated = Vec::new();
    for ((target, size), boost) in containers.iter().zip(&sizes).zip(boosts) {
        if matches!(boost, Boost::Excluded) {
            continue;
        }
        if let Boost::Applied((name, text)) = boost {
            patch.annotation(&name, text);
        }
        let items = patch_container(&mut patch, target, size);
        updated.extend(items.map(|items| (target.path, items)));
    }
    let vpa = object.metadata.name.as_deref().unwrap_or_default();
    if let Some(text) = updates_text(vpa, &updated) {
        patch.annotation(UPDATES, text);
    }
    if let Some(text) = limits {
        patch.annotation(LIMITS, text);
    }
    patch.annotation(OBSERVED_CONTAINERS, observed.join(", "));
    Ok(patch)
}

/// The recommended size of each container, within policies and limits.
fn sizes(
    containers: &[TargetContainer<'_>],
    spec: &VerticalPodAutoscalerSpec,
    recommendation: Option<&[Target<'_>]>,
    modes: &LimitModes,
    limits: &NamespaceLimits,
) -> Vec<ContainerSize> {
    let is_off = spec.effective_update_mode() == EffectiveUpdateMode::Off;
    let Some(recommendation) = recommendation.filter(|_| !is_off) else {
        return vec![ContainerSize::default(); containers.len()];
    };
    let empty = ResourceList::new();
    let containers: Vec<_> = containers
        .iter()
        .map(|target| PodContainer {
            name: target.name,
            requests: target.effective.requests.as_ref().unwrap_or(&empty),
            limits: target.effective.limits.as_ref().unwrap_or(&empty),
            allowed: spec.allowed(target.name),
            limit_modes: modes,
        })
        .collect();
    pod_sizes(recommendation, &containers, limits)
}

enum Boost {
    None,
    /// A boost, with the name and value of its annotation.
    Applied((String, String)),
    /// The container is not patched: with the feature gate, policies of mode `Off` have this
    /// effect.
    Excluded,
}

/// The boosts of the containers, which `sizes` gets. A boost that `admit` reverts is left out.
fn boosts(
    containers: &[TargetContainer<'_>],
    sizes: &mut [ContainerSize],
    object: &VerticalPodAutoscaler,
    limit_mode: &LimitMode,
    config: &AdmissionConfig,
    admit: impl Fn(&mut [ContainerSize]),
) -> Result<Vec<Boost>, BoostError> {
    if !config.gates.cpu_startup_boost {
        return Ok(containers.iter().map(|_| Boost::None).collect());
    }
    let mut boosted = sizes.to_vec();
    let pairs = containers.iter().zip(&mut boosted);
    let boosts = pairs.map(|(target, size)| boost(target, size, object, limit_mode, config));
    let mut boosts = boosts.collect::<Result<Vec<_>, _>>()?;
    let mut admitted = boosted.clone();
    admit(&mut admitted);
    let cpu = |size: &ContainerSize| size.requests.get(&ResourceName::Cpu).cloned();
    for (index, boost) in boosts.iter_mut().enumerate() {
        if matches!(boost, Boost::Applied(_)) && cpu(&admitted[index]) != cpu(&boosted[index]) {
            *boost = Boost::None;
            sizes[index].notes.push(BOOST_REFUSED.to_owned());
        } else {
            sizes[index].clone_from(&boosted[index]);
        }
    }
    Ok(boosts)
}

fn boost(
    target: &TargetContainer<'_>,
    size: &mut ContainerSize,
    object: &VerticalPodAutoscaler,
    limit_mode: &LimitMode,
    config: &AdmissionConfig,
) -> Result<Boost, BoostError> {
    let (name, spec) = (target.name, &object.spec);
    if spec.is_off(name) {
        *size = ContainerSize::default();
        return Ok(Boost::Excluded);
    }
    let Some(boost) = startup_boost::boost_of(spec, name) else {
        return Ok(Boost::None);
    };
    let original = target.written;
    let (values, max) = (spec.allowed(name).values, config.max_cpu_boost.as_ref());
    startup_boost::apply(size, boost, original, values, limit_mode, max)?;
    Ok(Boost::Applied(startup_boost::annotation(name, original)))
}

/// Patches one container. Returns what the annotation says about it; `None` without a change.
fn patch_container(
    patch: &mut Patch,
    target: &TargetContainer<'_>,
    size: &ContainerSize,
) -> Option<Vec<String>> {
    let container = target.path;
    // Default requests of the pod as a whole are not in the pod.
    let effective = match container {
        ContainerPath::Pod => target.written,
        ContainerPath::Container(_) | ContainerPath::InitContainer(_) => target.effective,
    };
    let before = patch.len();
    let mut items = size.notes.clone();
    // Other fields must not be replaced.
    if effective.requests.is_none()
        && effective.limits.is_none()
        && !target.written.has_other_fields
    {
        patch.add_at(container.resources(&[]), json!({}));
    }
    let lists = [
        (
            ResourcesField::Requests,
            &effective.requests,
            &size.requests,
        ),
        (ResourcesField::Limits, &effective.limits, &size.limits),
    ];
    for (field, original, amounts) in lists {
        if original.is_none() && !amounts.is_empty() {
            patch.add_at(container.resources(&[field.name()]), json!({}));
        }
        for (resource, quantity) in amounts
            .iter()
            .filter(|(resource, _)| !resource.as_str().is_empty())
        {
            let at = container.resources(&[field.name(), resource.as_str()]);
            patch.add_at(at, Value::String(quantity.to_string()));
            items.push(format!("{resource} {}", field.singular()));
        }
    }
    for resource in &size.removed_limits {
        patch.remove(container.resources(&[ResourcesField::Limits.name(), resource.as_str()]));
        items.push(format!("{resource} limit removed"));
    }
    (patch.len() > before).then_some(items)
}

/// The text about the patched containers with their items; `None` without any.
/// Source: upstream `pkg/admission-controller/resource/pod/patch/resource_updates.go`.
fn updates_text(vpa: &str, containers: &[(ContainerPath, Vec<String>)]) -> Option<String> {
    let containers = containers.iter();
    let containers = containers.map(|(path, items)| format!("{path}: {}", items.join(", ")));
    let containers: Vec<String> = containers.collect();
    let text = format!("Pod resources updated by {vpa}: {}", containers.join("; "));
    (!containers.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(containers: &[&[&str]], expected: Option<&str>) {
        let patched = containers.iter().enumerate();
        let patched = patched.filter(|(_, items)| !items.is_empty());
        let patched = patched.map(|(index, items)| {
            let items = items.iter().map(ToString::to_string).collect();
            (ContainerPath::Container(index), items)
        });
        let text = updates_text("web", &patched.collect::<Vec<_>>());
        assert_eq!(text.as_deref(), expected, "{containers:?}");
    }

    #[test]
    fn patched_containers_are_listed() {
        check(&[], None);
        check(&[&[]], None);
        check(
            &[&[], &["a", "b"]],
            Some("Pod resources updated by web: container 1: a, b"),
        );
        check(
            &[&["a"], &[], &["b"]],
            Some("Pod resources updated by web: container 0: a; container 2: b"),
        );
    }
}

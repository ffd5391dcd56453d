//! The patch of an in-place resize (subresource `resize`), and the changes of annotations after it.
//!
//! Source: upstream `pkg/updater/inplace/resource_updates.go`, `inplace_updated.go` and
//! `unboost_annotation.go`.

use std::collections::BTreeMap;

use api::vpa::{EffectiveUpdateMode, VerticalPodAutoscalerSpec};
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation};
use model::{Quantity, ResourceList, ResourceName};
use serde_json::{Value, json};
use sizing::ContainerSize;
use view::{ContainerSpec, Running};

use crate::clock::ClockReading;
use crate::resize::pod_size::{requests, resource_paths, sized_containers, specified};
use crate::resize::startup_boost;

/// Annotation that Plimsoll writes on a pod: the pod was resized in place; upstream's.
pub(crate) const IN_PLACE_UPDATED: &str = "vpaInPlaceUpdated";

/// The desired size of each sized container, in their order; `None` if it stays as it is.
pub(crate) type DesiredSizes = Vec<Option<ContainerSize>>;

/// Annotations to set, or to remove with `None`. Others of the pod stay.
pub type AnnotationChanges = BTreeMap<String, Option<String>>;

/// The desired sizes. Containers with a startup boost stay as they are. Those whose boost is over
/// get their original size back if nothing is recommended.
pub(crate) fn desired_sizes(
    running: &Running,
    spec: &VerticalPodAutoscalerSpec,
    sizes: Vec<ContainerSize>,
    now: ClockReading,
) -> DesiredSizes {
    let is_off = spec.effective_update_mode() == EffectiveUpdateMode::Off;
    let desired = |(container, size): (&ContainerSpec, ContainerSize)| {
        let size = if is_off {
            ContainerSize::default()
        } else {
            size
        };
        if startup_boost::boosted(running).any(|boosted| boosted == container.name) {
            if !startup_boost::is_expired(running, spec, &container.name, now) {
                return None;
            }
            let original = startup_boost::original(running, &container.name);
            return with_original_cpu(size, original, requests(container));
        }
        (!is_off).then_some(size)
    };
    sized_containers(running, true)
        .zip(sizes)
        .map(desired)
        .collect()
}

/// The size after a boost. CPU without a recommendation goes back to what it was. A running pod cannot
/// lose a request, so one that there was not becomes the smallest with an effect.
fn with_original_cpu(
    mut size: ContainerSize,
    original: Option<ContainerSize>,
    boosted: &ResourceList,
) -> Option<ContainerSize> {
    let is_empty = size.requests.is_empty() && size.limits.is_empty();
    let Some(mut original) = original else {
        return (!is_empty).then_some(size);
    };
    let smallest = Quantity::from_milli(1);
    let boosted = boosted.get(&ResourceName::Cpu);
    if original.requests.get(&ResourceName::Cpu).is_none() && boosted > Some(&smallest) {
        original.requests.insert(ResourceName::Cpu, smallest);
    }
    if is_empty {
        return Some(original);
    }
    if size.requests.get(&ResourceName::Cpu).is_none() {
        for (list, before) in [
            (&mut size.requests, &original.requests),
            (&mut size.limits, &original.limits),
        ] {
            if let Some(cpu) = before.get(&ResourceName::Cpu) {
                list.insert(ResourceName::Cpu, cpu.clone());
            }
        }
    }
    Some(size)
}

pub(crate) fn patch(running: &Running, sizes: &DesiredSizes) -> Patch {
    let mut operations = Vec::new();
    for (at, (container, size)) in
        resource_paths(running).zip(sized_containers(running, true).zip(sizes))
    {
        let Some(size) = size else { continue };
        // A container with resource claims has the field already.
        if container.requests.is_none() && container.limits.is_none() && !container.has_claims {
            operations.push(add(&at, &[], json!({})));
        }
        for (field, list, before) in [
            ("requests", &size.requests, &container.requests),
            ("limits", &size.limits, &container.limits),
        ] {
            if before.is_none() && !list.is_empty() {
                operations.push(add(&at, &[field], json!({})));
            }
            for (name, quantity) in list.iter() {
                let quantity = json!(quantity.to_string());
                operations.push(add(&at, &[field, name.as_str()], quantity));
            }
        }
    }
    Patch(operations)
}

/// The changes of annotations after a resize: it is marked as resized, and boosts that are over are
/// removed.
pub(crate) fn annotation_changes(
    running: &Running,
    spec: &VerticalPodAutoscalerSpec,
    now: ClockReading,
) -> AnnotationChanges {
    let over = startup_boost::boosted(running)
        .filter(|container| startup_boost::is_expired(running, spec, container, now));
    let over = over.map(|container| (startup_boost::annotation(container), None));
    over.chain([(IN_PLACE_UPDATED.to_owned(), Some("true".to_owned()))])
        .collect()
}

fn add(at: &PointerBuf, within: &[&str], value: Value) -> PatchOperation {
    let mut path = at.clone();
    for token in within {
        path.push_back(*token);
    }
    PatchOperation::Add(AddOperation { path, value })
}

pub(crate) fn resized_containers<'a>(
    running: &'a Running,
    sizes: &'a DesiredSizes,
) -> impl Iterator<Item = (&'a ContainerSpec, &'a ContainerSize)> {
    let containers = sized_containers(running, true).zip(sizes);
    containers.filter_map(|(container, size)| Some((container, size.as_ref()?)))
}

pub(crate) fn changes<'a>(
    running: &'a Running,
    sizes: &'a DesiredSizes,
) -> impl Iterator<Item = (&'a ContainerSpec, &'a ResourceName, &'a Quantity)> {
    resized_containers(running, sizes).flat_map(|(container, size)| {
        let lists = specified(container)
            .into_iter()
            .zip([&size.requests, &size.limits]);
        let amounts = lists.flat_map(|(before, after)| after.iter().map(move |it| (before, it)));
        amounts
            .filter(|(before, (name, quantity))| before.get(name) != Some(quantity))
            .map(move |(_, (name, quantity))| (container, name, quantity))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use view::Pod;

    use super::*;

    fn running(pod: Value) -> Running {
        let pod = Pod::from_k8s_running(serde_json::from_value(pod).expect("a pod"), false);
        pod.running.expect("kept").as_ref().clone()
    }

    #[test]
    fn annotations_that_others_write_meanwhile_stay() {
        let spec = json!({"targetRef": {"kind": "Deployment", "name": "web"}});
        let spec: VerticalPodAutoscalerSpec =
            serde_json::from_value(spec).expect("a specification");
        let wall = "2026-01-01T12:00:00Z".parse().expect("a time");
        let seen = running(json!({"metadata": {"name": "web-0"}, "spec": {"containers": []}}));
        let monotonic = std::time::Duration::ZERO;
        let annotations = annotation_changes(&seen, &spec, ClockReading { wall, monotonic });
        let mut pod = json!({"metadata": {"name": "web-0", "annotations": {"cni.example.com/address": "10.0.0.1"}}});
        json_patch::merge(&mut pod, &json!({"metadata": {"annotations": annotations}}));
        let expected = json!({"cni.example.com/address": "10.0.0.1", IN_PLACE_UPDATED: "true"});
        assert_eq!(pod["metadata"]["annotations"], expected);
    }

    #[test]
    fn claims_of_a_container_stay() {
        let container = json!({"name": "app", "resources": {"claims": [{"name": "gpu"}]}});
        let seen =
            running(json!({"metadata": {"name": "web-0"}, "spec": {"containers": [container]}}));
        let cpu = [("cpu".into(), "1".parse().expect("a quantity"))];
        let size = ContainerSize {
            requests: cpu.into_iter().collect(),
            ..ContainerSize::default()
        };
        let patch = patch(&seen, &vec![Some(size)]);
        let mut pod = json!({"spec": {"containers": [container]}});
        json_patch::patch(&mut pod, &patch).expect("it applies");
        let expected = json!({"claims": [{"name": "gpu"}], "requests": {"cpu": "1"}});
        assert_eq!(pod["spec"]["containers"][0]["resources"], expected);
    }
}

//! The patches of a resize: of the subresource `resize`, and of the pod's annotations afterwards.
//!
//! Source: upstream `pkg/updater/inplace/resource_updates.go`, `inplace_updated.go` and `unboost_annotation.go`.

use api::vpa::{EffectiveUpdateMode, VerticalPodAutoscalerSpec};
use cluster::{Running, Specified};
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation};
use model::{Quantity, ResourceList, ResourceName};
use serde_json::{Value, json};
use sizing::ContainerSize;

use super::boost;
use super::moment::Moment;

/// Says that the pod's size is not that of its creation.
const UPDATED: &str = "vpaInPlaceUpdated";

/// What each container of the specification is to ask for; none for those that stay as they are.
pub(super) type Wanted = Vec<Option<ContainerSize>>;

/// From what is recommended to what is asked for: containers that have their boost still stay as they
/// are; those whose boost is over get back what they had where nothing is recommended.
pub(super) fn wanted(
    running: &Running,
    spec: &VerticalPodAutoscalerSpec,
    sizes: Vec<ContainerSize>,
    now: Moment,
) -> Wanted {
    let is_off = spec.effective_update_mode() == EffectiveUpdateMode::Off;
    let wanted = |(container, size): (&Specified, ContainerSize)| {
        let size = if is_off { ContainerSize::default() } else { size };
        if boost::boosted(running).any(|boosted| boosted == container.name) {
            if !boost::is_expired(running, spec, &container.name, now) {
                return None;
            }
            let is_empty = size.requests.is_empty() && size.limits.is_empty();
            return if is_empty { boost::original(running, &container.name) } else { Some(size) };
        }
        (!is_off).then_some(size)
    };
    running.containers.iter().zip(sizes).map(wanted).collect()
}

/// The patch of the subresource `resize`.
pub(super) fn resize(running: &Running, wanted: &Wanted) -> Patch {
    let mut operations = Vec::new();
    for (index, (container, size)) in running.containers.iter().zip(wanted).enumerate() {
        let Some(size) = size else { continue };
        let index = index.to_string();
        let at = ["spec", "containers", &index, "resources"];
        if container.requests.is_none() && container.limits.is_none() {
            operations.push(add(&at, json!({})));
        }
        for (field, list, before) in
            [("requests", &size.requests, &container.requests), ("limits", &size.limits, &container.limits)]
        {
            if before.is_none() && !list.is_empty() {
                operations.push(add(&[&at[..], &[field]].concat(), json!({})));
            }
            for (name, quantity) in list.iter() {
                operations.push(add(&[&at[..], &[field, name.as_str()]].concat(), json!(quantity.to_string())));
            }
        }
    }
    Patch(operations)
}

/// The patch of the pod that says so, and takes away the annotations of boosts that are over.
pub(super) fn annotate(running: &Running, spec: &VerticalPodAutoscalerSpec, now: Moment) -> Patch {
    let mut operations = Vec::new();
    if !running.has_annotations {
        operations.push(add(&["metadata", "annotations"], json!({})));
    }
    operations.push(set_annotation(UPDATED, "true"));
    let over = boost::boosted(running).filter(|container| boost::is_expired(running, spec, container, now));
    operations.extend(over.map(|container| remove_annotation(&boost::annotation(container))));
    Patch(operations)
}

/// Puts an annotation in place.
pub(super) fn set_annotation(name: &str, value: &str) -> PatchOperation {
    add(&["metadata", "annotations", name], json!(value))
}

/// Takes an annotation away that is there.
pub(super) fn remove_annotation(name: &str) -> PatchOperation {
    PatchOperation::Remove(RemoveOperation { path: PointerBuf::from_tokens(["metadata", "annotations", name]) })
}

fn add(path: &[&str], value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path: PointerBuf::from_tokens(path.iter().copied()), value })
}

/// What a resize changes in the specification, container by container.
pub(super) fn changes<'a>(
    running: &'a Running,
    wanted: &'a Wanted,
) -> impl Iterator<Item = (&'a Specified, &'a ResourceName, &'a Quantity)> {
    let sized = running.containers.iter().zip(wanted).filter_map(|(container, size)| Some((container, size.as_ref()?)));
    sized.flat_map(|(container, size)| {
        let requests = differing(container.requests.as_ref(), &size.requests);
        let limits = differing(container.limits.as_ref(), &size.limits);
        requests.chain(limits).map(move |(name, quantity)| (container, name, quantity))
    })
}

fn differing<'a>(
    before: Option<&'a ResourceList>,
    after: &'a ResourceList,
) -> impl Iterator<Item = (&'a ResourceName, &'a Quantity)> {
    let asked = move |name| before.and_then(|before| before.get(name));
    after.iter().filter(move |(name, wanted)| asked(name) != Some(*wanted))
}

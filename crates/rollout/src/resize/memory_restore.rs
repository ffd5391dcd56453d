//! Memory restored after an OOM kill that follows a resize: the previous size, the annotations, and
//! the time for which it is kept.
//!
//! An annotation of the pod keeps the previous memory, so that any replica finds it after any
//! restart.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use model::{Recommendation, ResourceList, ResourceName};
use serde::{Deserialize, Serialize};
use sizing::ContainerSize;
use view::{ContainerSpec, Pod, Running};

use crate::clock::ClockReading;
use crate::resize::oom_kill::OOM_KILLED;
use crate::resize::pod_size::{container_recommendation, memory_of, specified};
use crate::resize::proven_acts::OOM_RESIZE;
use crate::resize::resize_patch::{AnnotationChanges, DesiredSizes};

/// Annotation that Plimsoll writes on a pod: memory before a resize, to return to after an OOM
/// kill; see docs/updating.md#resizes-in-place.
pub const RESIZED_FROM: &str = "plimsoll.dev/resized-from";
/// Annotation that Plimsoll writes on a pod: time of the return to the memory before a resize.
pub const REVERTED_AT: &str = "plimsoll.dev/reverted-at";
/// The time for which restored memory is not reduced again.
const PROTECTED_FOR: Duration = Duration::from_hours(12);

/// The value of the annotation [`RESIZED_FROM`].
#[derive(Debug, Serialize, Deserialize)]
struct ResizedFrom {
    at: Timestamp,
    containers: BTreeMap<String, PreviousMemory>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct PreviousMemory {
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    requests: ResourceList,
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    limits: ResourceList,
}

impl ResizedFrom {
    /// The value on a pod, if it can be parsed.
    fn of(running: &Running) -> Option<Self> {
        serde_json::from_str(running.annotations.get(RESIZED_FROM)?).ok()
    }

    fn oom_killed_since(&self, pod: &Pod, container: &str) -> Option<&PreviousMemory> {
        let previous = self.containers.get(container)?;
        let seen = pod.containers.iter().find(|seen| seen.name == container)?;
        let last = seen.status.as_ref()?.last_termination.as_ref()?;
        let killed_at = last.finished_at.filter(|_| last.reason == OOM_KILLED)?;
        // A kubelet reports whole seconds.
        (killed_at.as_second() >= self.at.as_second()).then_some(previous)
    }
}

/// The annotation for a resize: the previous memory of containers whose memory it reduces; `None`
/// if it reduces none. An existing annotation stays until an OOM kill uses it: its memory is known
/// to be enough.
pub(crate) fn resized_from(
    pod: &Pod,
    running: &Running,
    sizes: &DesiredSizes,
    now: ClockReading,
) -> Option<String> {
    let is_open = |known: ResizedFrom| {
        known
            .containers
            .keys()
            .all(|name| known.oom_killed_since(pod, name).is_none())
    };
    if ResizedFrom::of(running).is_some_and(is_open) {
        return None;
    }
    let mut containers = BTreeMap::new();
    for (container, size) in running.containers.iter().zip(sizes) {
        let Some(size) = size else { continue };
        if reduces_memory(container, size) {
            // Requests and limits are restored together.
            let [requests, limits] = specified(container).map(only_memory);
            containers.insert(container.name.clone(), PreviousMemory { requests, limits });
        }
    }
    if containers.is_empty() {
        return None;
    }
    let at = now.wall;
    serde_json::to_string(&ResizedFrom { at, containers }).ok()
}

/// Whether a size has less memory, or a lower limit of it, than the container.
fn reduces_memory(container: &ContainerSpec, size: &ContainerSize) -> bool {
    let [requests, limits] = specified(container);
    is_less_memory(&size.requests, requests) || is_less_memory(&size.limits, limits)
}

fn is_less_memory(list: &ResourceList, than: &ResourceList) -> bool {
    let memory = memory_of(list).zip(memory_of(than));
    memory.is_some_and(|(memory, than)| memory < than)
}

fn without_memory(list: &ResourceList) -> ResourceList {
    let mut others = list.clone();
    others.remove(&ResourceName::Memory);
    others
}

pub(crate) fn only_memory(list: &ResourceList) -> ResourceList {
    let memory = memory_of(list).map(|quantity| (ResourceName::Memory, quantity.clone()));
    memory.into_iter().collect()
}

/// Leaves the container's memory as it is.
pub(crate) fn remove_memory(size: &mut ContainerSize) {
    size.requests.remove(&ResourceName::Memory);
    size.limits.remove(&ResourceName::Memory);
}

/// The sizes that restore the memory of OOM killed containers; `None` if there are none. Nothing is
/// restored where more is recommended meanwhile, or where the container has more already.
pub(crate) fn sizes_to_restore(
    pod: &Pod,
    running: &Running,
    recommendation: &Recommendation,
) -> Option<DesiredSizes> {
    let from = ResizedFrom::of(running)?;
    let sizes: DesiredSizes = running
        .containers
        .iter()
        .map(|container| {
            let PreviousMemory { requests, limits } =
                from.oom_killed_since(pod, &container.name)?;
            let present = specified(container);
            let gains = is_less_memory(present[0], requests) || is_less_memory(present[1], limits);
            let recommended = container_recommendation(recommendation, &container.name);
            let target = recommended.and_then(|recommended| memory_of(&recommended.target));
            let target = target.zip(memory_of(requests));
            let is_less = target.is_none_or(|(target, previous)| target < previous);
            (gains && is_less).then(|| ContainerSize::of(requests.clone(), limits.clone()))
        })
        .collect();
    sizes.iter().any(Option::is_some).then_some(sizes)
}

/// The sizes that give up a resize of memory that the kubelet does not carry out, so that it carries
/// out the rest: the memory in effect. `None` if there is nothing else to carry out.
pub(crate) fn sizes_in_effect(running: &Running) -> Option<DesiredSizes> {
    let mut has_others = false;
    let sizes = running.containers.iter().map(|container| {
        let reported = container.reported.as_ref()?.each_ref();
        has_others |= specified(container).map(without_memory) != reported.map(without_memory);
        let [requests, limits] = reported.map(only_memory);
        Some(ContainerSize::of(requests, limits))
    });
    let sizes = sizes.collect();
    has_others.then_some(sizes)
}

/// Takes out of a resize the memory of the containers whose memory it reduces. Returns whether there
/// were any.
pub(crate) fn keep_memory(running: &Running, sizes: &mut DesiredSizes) -> bool {
    let mut is_kept = false;
    for (size, container) in sizes.iter_mut().zip(&running.containers) {
        if let Some(size) = size.as_mut().filter(|size| reduces_memory(container, size)) {
            remove_memory(size);
            is_kept = true;
        }
    }
    is_kept
}

/// The changes of annotations after memory was restored.
pub(crate) fn annotation_changes(now: ClockReading) -> AnnotationChanges {
    [
        (REVERTED_AT.to_owned(), Some(now.wall.to_string())),
        (RESIZED_FROM.to_owned(), None),
    ]
    .into()
}

/// Those of the changes that later decisions about memory depend on.
pub(crate) fn notes(changes: &AnnotationChanges) -> BTreeMap<String, String> {
    let notes = changes
        .iter()
        .filter(|(key, _)| [RESIZED_FROM, REVERTED_AT, OOM_RESIZE].contains(&key.as_str()));
    notes
        .filter_map(|(key, value)| Some((key.clone(), value.clone()?)))
        .collect()
}

/// The rest of the time for which restored memory is not reduced.
pub(crate) fn protected_for(running: &Running, now: ClockReading) -> Option<Duration> {
    let at = running.annotations.get(REVERTED_AT)?.parse().ok()?;
    now.until(at, PROTECTED_FOR)
}

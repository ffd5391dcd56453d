//! Resources that the recommendation leaves out, since a `HorizontalPodAutoscaler` (HPA) scales by
//! their utilization.
//!
//! The HPA divides usage by the requests of the pods. A pod that was sized before the HPA was there
//! gets the request of its template back, which the webhook leaves to new pods.

use std::borrow::Cow;

use api::pod_annotations::UPDATES;
use api::vpa::{
    CONFLICTS_WITH_HPA, DEFAULT_CONTROLLED_RESOURCES, HPA_RESOURCE_LEFT_OUT, VerticalPodAutoscaler,
};
use model::{Allowed, Quantity, Recommendation, ResourceName};
use view::Running;

use crate::limits::vpa_pause::condition;
use crate::resize::pod_size::{PodToSize, requests, sized_containers};
use crate::resize::resize_patch::IN_PLACE_UPDATED;

/// The recommendation for a pod. Each resource that is left out, and in which the pod was sized, is
/// that of the pod's template.
pub(crate) fn completed<'r>(
    recommendation: &'r Recommendation,
    object: &VerticalPodAutoscaler,
    pod: &PodToSize,
) -> Cow<'r, Recommendation> {
    let mut completed = Cow::Borrowed(recommendation);
    let Some(template) = pod.template.filter(|_| leaves_out(object)) else {
        return completed;
    };
    for (index, container) in recommendation.containers.iter().enumerate() {
        let name = &container.container_name;
        let mut running = sized_containers(pod.running, pod.native_sidecars);
        let (Some(running), Some((written, _))) = (
            running.find(|it| it.name == *name),
            template.resources_of(name, &pod.namespace.items),
        ) else {
            continue;
        };
        for resource in &DEFAULT_CONTROLLED_RESOURCES {
            let Some(request) = written.get(resource) else {
                continue;
            };
            let is_left_out = container.target.get(resource).is_none()
                && object.spec.sizes(name, resource)
                && was_sized(pod.running, resource);
            let present = requests(running).get(resource);
            // What the policy forbids, an act would not bring.
            if is_left_out
                && present.is_some_and(|present| present != request)
                && is_allowed(&object.spec.allowed(name), resource, request)
            {
                let all = &mut completed.to_mut().containers[index];
                for list in [&mut all.target, &mut all.lower_bound, &mut all.upper_bound] {
                    list.insert(resource.clone(), request.clone());
                }
            }
        }
    }
    completed
}

fn leaves_out(object: &VerticalPodAutoscaler) -> bool {
    condition(object, CONFLICTS_WITH_HPA)
        .is_some_and(|it| it.status == "True" && it.reason == HPA_RESOURCE_LEFT_OUT)
}

/// Whether the webhook or a resize has set this request. That of another program stays.
fn was_sized(running: &Running, resource: &ResourceName) -> bool {
    let updates = running.annotations.get(UPDATES);
    running.annotations.contains_key(IN_PLACE_UPDATED)
        || updates.is_some_and(|text| text.contains(&format!("{resource} request")))
}

fn is_allowed(allowed: &Allowed, resource: &ResourceName, request: &Quantity) -> bool {
    let [min, max] = [allowed.min, allowed.max].map(|bounds| bounds?.get(resource));
    min.is_none_or(|min| request >= min) && max.is_none_or(|max| request <= max)
}

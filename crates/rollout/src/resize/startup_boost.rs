//! CPU startup boosts, and their end.
//!
//! Source: upstream `pkg/utils/vpa/cpu_startup_boost.go` and `pkg/updater/logic/updater.go`.

use std::time::Duration;

use api::pod_annotations::STARTUP_BOOST_PREFIX;
use api::vpa::VerticalPodAutoscalerSpec;
use model::ResourceList;
use serde::Deserialize;
use sizing::ContainerSize;
use view::Running;

use crate::clock::ClockReading;

/// The size of a container before its boost.
#[derive(Deserialize)]
struct Original {
    requests: Option<ResourceList>,
    limits: Option<ResourceList>,
}

pub(crate) fn is_boosted(running: &Running) -> bool {
    boosted(running).next().is_some()
}

pub(crate) fn boosted(running: &Running) -> impl Iterator<Item = &str> {
    running
        .annotations
        .keys()
        .filter_map(|name| name.strip_prefix(STARTUP_BOOST_PREFIX))
}

pub(crate) fn annotation(container: &str) -> String {
    format!("{STARTUP_BOOST_PREFIX}{container}")
}

/// Whether a container's boost is over: the pod has been ready for its duration.
pub(crate) fn is_expired(
    running: &Running,
    spec: &VerticalPodAutoscalerSpec,
    container: &str,
    now: ClockReading,
) -> bool {
    let duration = duration(spec, container);
    running
        .ready_since
        .is_some_and(|since| duration.is_zero() || now.since(since) > duration)
}

/// The time until the next boost of a pod is over; `None` before the pod is ready, and once all are
/// over.
pub(crate) fn expires_in(
    running: &Running,
    spec: &VerticalPodAutoscalerSpec,
    now: ClockReading,
) -> Option<Duration> {
    let ready_for = now.since(running.ready_since?);
    let lasting = boosted(running).filter(|container| !is_expired(running, spec, container, now));
    lasting
        .map(|container| duration(spec, container).saturating_sub(ready_for))
        .min()
}

/// The duration of a boost after the pod became ready. The container policy takes precedence.
fn duration(spec: &VerticalPodAutoscalerSpec, container: &str) -> Duration {
    let own = spec
        .container_policy(container)
        .and_then(|policy| policy.startup_boost.as_ref());
    let seconds = [own, spec.startup_boost.as_ref()]
        .into_iter()
        .flatten()
        .find_map(|boost| boost.cpu.as_ref()?.duration_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Duration::from_secs(seconds.unwrap_or(0))
}

/// The size of a container before its boost, if its annotation can be parsed.
pub(crate) fn original(running: &Running, container: &str) -> Option<ContainerSize> {
    let Original { requests, limits } =
        serde_json::from_str(running.annotations.get(&annotation(container))?).ok()?;
    let (requests, limits) = (requests.unwrap_or_default(), limits.unwrap_or_default());
    Some(ContainerSize::of(requests, limits))
}

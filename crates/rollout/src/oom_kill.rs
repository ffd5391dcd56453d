//! OOM kills of containers, in particular those soon after the start.

use std::time::Duration;

use api::vpa::VerticalPodAutoscalerSpec;
use jiff::Timestamp;
use model::{Quantity, Recommendation, ResourceList, ResourceName};
use view::{Container, Pod, Running, Termination};

use super::clock::ClockReading;
use super::observed_containers::ObservedContainers;
use super::pod_size::{container_recommendation, limits, requests};
use super::settings::Settings;

/// The kubelet's reason for an OOM kill.
pub(super) const OOM_KILLED: &str = "OOMKilled";

/// An OOM kill of a container soon after its start.
#[derive(Debug, Clone, PartialEq)]
pub struct QuickOomKill {
    /// The container's name.
    pub container: String,
    /// The time from the container's start to the kill.
    pub ran_for: Duration,
    /// The time of the kill.
    pub ended_at: Timestamp,
    /// The container's memory request.
    pub request: Option<Quantity>,
    /// The container's memory limit.
    pub limit: Option<Quantity>,
    /// The recommended memory request, capped for the pod.
    pub target: Option<Quantity>,
}

/// A container that was OOM killed soon after its start: its name, the time that it ran, and the
/// time of the kill.
pub(super) fn quick_oom<'a>(
    pod: &'a Pod,
    running: &Running,
    spec: &VerticalPodAutoscalerSpec,
    settings: &Settings,
    now: ClockReading,
) -> Option<(&'a str, Duration, Timestamp)> {
    let own = spec
        .update_policy
        .as_ref()
        .and_then(|policy| policy.evict_after_oom_seconds);
    let own = own
        .filter(|_| settings.per_vpa_config)
        .and_then(|seconds| u64::try_from(seconds).ok());
    let threshold = own.map_or(settings.quick_oom_threshold, Duration::from_secs);
    let observed = ObservedContainers::of(running);
    pod.containers.iter().find_map(|container| {
        let is_off = spec.is_off(&container.name);
        let killed =
            last_oom_kill(container).filter(|_| !is_off && observed.includes(&container.name))?;
        let (began, ended) = (killed.started_at?, killed.finished_at?);
        let counts = settings
            .quick_oom_retention
            .is_none_or(|counts| now.since(ended) <= counts);
        let ran_for = Duration::try_from(ended.duration_since(began)).unwrap_or_default();
        (counts && ran_for < threshold).then_some((container.name.as_str(), ran_for, ended))
    })
}

/// A container whose last run was OOM killed within the retention, however long it ran, with the
/// start of that run. The latest kill counts.
pub(super) fn last_killed<'a>(
    pod: &'a Pod,
    running: &Running,
    spec: &VerticalPodAutoscalerSpec,
    settings: &Settings,
    now: ClockReading,
) -> Option<(&'a Container, &'a Termination)> {
    let killed = pod.containers.iter();
    let killed = killed.filter_map(|container| Some((container, last_oom_kill(container)?)));
    let mut killed = killed.peekable();
    // Few pods have any.
    killed.peek()?;
    let observed = ObservedContainers::of(running);
    let killed = killed.filter(|(container, last)| {
        let is_off = spec.is_off(&container.name);
        let counts = settings
            .quick_oom_retention
            .zip(last.finished_at)
            .is_none_or(|(counts, ended)| now.since(ended) <= counts);
        counts && !is_off && observed.includes(&container.name)
    });
    killed.max_by_key(|(_, last)| last.finished_at)
}

/// The last termination of a container, if it was an OOM kill.
pub(super) fn last_oom_kill(container: &Container) -> Option<&Termination> {
    container
        .status
        .as_ref()?
        .last_termination
        .as_ref()
        .filter(|last| last.reason == OOM_KILLED)
}

/// The OOM kill of a container, with its memory and the new request.
pub(super) fn oom_kill(
    (container, ran_for, ended_at): (&str, Duration, Timestamp),
    running: &Running,
    own: &Recommendation,
) -> QuickOomKill {
    let memory = |list: Option<&ResourceList>| {
        list.and_then(|list| list.get(&ResourceName::Memory))
            .cloned()
    };
    let specified = running
        .containers
        .iter()
        .find(|specified| specified.name == container);
    QuickOomKill {
        container: container.to_owned(),
        ran_for,
        ended_at,
        request: memory(specified.and_then(requests)),
        limit: memory(specified.and_then(limits)),
        target: memory(
            container_recommendation(own, container).map(|recommended| &recommended.target),
        ),
    }
}

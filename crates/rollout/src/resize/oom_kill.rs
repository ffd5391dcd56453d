//! OOM kills of containers, in particular those soon after the start.

use std::time::Duration;

use api::vpa::VerticalPodAutoscalerSpec;
use jiff::Timestamp;
use model::{Quantity, Recommendation};
use view::{Container, Pod, Running, Termination};

use super::observed_containers;
use crate::clock::ClockReading;
use crate::resize::pod_size::{container_recommendation, effective, memory_of};
use crate::settings::Settings;

pub(crate) const OOM_KILLED: &str = "OOMKilled";
/// The time for which an OOM kill can refute an act.
pub(crate) const REFUTES_FOR: Duration = Duration::from_hours(12);

/// An OOM kill of a container soon after its start.
#[derive(Debug, Clone, PartialEq)]
pub struct QuickOomKill {
    pub container: String,
    /// The time from the container's start to the kill.
    pub ran_for: Duration,
    pub ended_at: Timestamp,
    /// Memory request and limit of the container.
    pub request: Option<Quantity>,
    pub limit: Option<Quantity>,
    /// The recommended memory request, capped for the pod.
    pub target: Option<Quantity>,
}

/// The longest run of a container that a quick OOM kill ends, and the time for which the kill counts.
pub(crate) fn quick_oom_threshold(
    spec: &VerticalPodAutoscalerSpec,
    settings: &Settings,
) -> Duration {
    let policy = spec.update_policy.as_ref();
    let own = policy.filter(|_| settings.per_vpa_config);
    let own = own.and_then(|policy| u64::try_from(policy.evict_after_oom_seconds?).ok());
    own.map_or(settings.quick_oom_threshold, Duration::from_secs)
}

/// A container that was OOM killed soon after its start, and not long ago, and the time of the kill.
///
/// Source: upstream `updater/priority/update_priority_calculator.go`, `AddPod`.
pub(crate) fn quick_oom<'a>(
    pod: &'a Pod,
    running: &Running,
    spec: &VerticalPodAutoscalerSpec,
    settings: &Settings,
    now: ClockReading,
) -> Option<(&'a Container, Timestamp)> {
    let threshold = quick_oom_threshold(spec, settings);
    let is_observed = observed_containers(running);
    pod.containers.iter().find_map(|container| {
        let is_off = spec.is_off(&container.name);
        let killed = killed_run(container).filter(|_| !is_off && is_observed(&container.name));
        let (ran_for, ended) = killed?;
        let is_quick = ran_for < threshold && now.since(ended) < threshold;
        is_quick.then_some((container, ended))
    })
}

/// The length and the end of the last run, if it was OOM killed.
fn killed_run(container: &Container) -> Option<(Duration, Timestamp)> {
    let killed = last_oom_kill(container)?;
    let (began, ended) = (killed.started_at?, killed.finished_at?);
    let ran_for = Duration::try_from(ended.duration_since(began)).unwrap_or_default();
    Some((ran_for, ended))
}

/// A container whose last run was OOM killed within [`REFUTES_FOR`], however long it ran, with the
/// start of that run. The latest kill counts.
pub(crate) fn last_killed<'a>(
    pod: &'a Pod,
    running: &Running,
    spec: &VerticalPodAutoscalerSpec,
    now: ClockReading,
) -> Option<(&'a Container, &'a Termination)> {
    let killed = pod.containers.iter();
    let killed = killed.filter_map(|container| Some((container, last_oom_kill(container)?)));
    let mut killed = killed.peekable();
    // Few pods have any.
    killed.peek()?;
    let is_observed = observed_containers(running);
    let killed = killed.filter(|(container, last)| {
        let is_off = spec.is_off(&container.name);
        let counts = last
            .finished_at
            .is_none_or(|ended| now.since(ended) <= REFUTES_FOR);
        counts && !is_off && is_observed(&container.name)
    });
    killed.max_by_key(|(_, last)| last.finished_at)
}

pub(crate) fn last_oom_kill(container: &Container) -> Option<&Termination> {
    let last = container.status.as_ref()?.last_termination.as_ref();
    last.filter(|last| last.reason == OOM_KILLED)
}

/// The last OOM kill of a container, with its memory and the new request.
pub(crate) fn oom_kill(
    container: &Container,
    running: &Running,
    own: &Recommendation,
) -> Option<QuickOomKill> {
    let (ran_for, ended_at) = killed_run(container)?;
    let name = &container.name;
    let specified = running.containers.iter().find(|it| it.name == *name);
    let memory = specified.map(|it| effective(it).map(|list| memory_of(list).cloned()));
    let (request, limit) = memory.map(<(_, _)>::from).unzip();
    let recommended = container_recommendation(own, name);
    Some(QuickOomKill {
        container: name.clone(),
        ran_for,
        ended_at,
        request: request.flatten(),
        limit: limit.flatten(),
        target: recommended.and_then(|of| memory_of(&of.target).cloned()),
    })
}

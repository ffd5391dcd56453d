//! Acts after an OOM kill, and what proves or refutes them.
//!
//! An act is not done because the API server accepted it. Each has an effect that the pod must
//! show, and an observation that refutes it. Then the next kind of act follows, never the same one
//! without a change:
//!
//! | act | expected effect | refuted by | next act |
//! |---|---|---|---|
//! | resize to a larger target | the next run keeps within its new limit | an OOM kill of a run that began after the resize; an OOM kill more than 10 s after it; a limit that changed while the container was stopped | a larger target: another resize, after two refuted ones an eviction; else a step |
//! | resize that the kubelet defers, since the node has no room | the kubelet carries it out | an OOM kill of a run that began after that | an eviction: another node may have the room |
//! | step: one MiB more while the container runs | the kubelet writes the pod's cgroup, and the next run keeps within its limit | an OOM kill of a run that began after the step | an eviction |
//! | eviction | the replacement keeps within the target | an OOM kill of the replacement, which was never resized | none, until the target changes |
//!
//! The rule reads the pod: the annotation [`OOM_RESIZE`], the annotation of upstream's updater, and
//! the start of the run that was killed. So a new leader decides the same, at the latest after one
//! more kill.

use std::time::Duration;

pub use api::pod_annotations::OOM_RESIZE;
use api::pod_annotations::OOM_RESIZE_EFFECT_WITHIN;
use jiff::Timestamp;
use model::{Memory, Quantity, ResourceList, ResourceName};
use serde::{Deserialize, Serialize};
use sizing::ContainerSize;
use view::{ContainerSpec, ContainerState, ContainerStatus, ObjectKey, Pod, Running};

use crate::clock::ClockReading;
use crate::resize::pod_size::{effective, memory_of, sized_containers, specified};
use crate::resize::resize_patch::{DesiredSizes, resized_containers};

/// The memory that a step adds, in bytes. The smallest amount that the kubelet sees as a change and
/// that is a whole number of pages on each platform.
const STEP: i64 = 1 << 20;
/// Refuted resizes in a row after which an eviction replaces the next one.
const MAX_REFUTED_RESIZES: u32 = 2;
/// The longest time for which a resize waits for the next run of a container, where an eviction is
/// allowed. The kubelet's first two back-offs (10 s, 20 s) are shorter than a replacement takes to
/// be scheduled and ready; the next ones (40 s to 5 min) are longer.
const LONGEST_WAIT_FOR_RUN: Duration = Duration::from_secs(30);

/// The value of the annotation [`OOM_RESIZE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OomResize {
    pub(crate) at: Timestamp,
    pub(crate) act: ResizeAct,
    /// Resizes before this one that were refuted in a row.
    #[serde(default)]
    pub(crate) refuted: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ResizeAct {
    Resize,
    Step,
}

impl OomResize {
    /// The value on a pod, if it can be parsed.
    pub(crate) fn of(running: &Running) -> Option<Self> {
        serde_json::from_str(running.annotations.get(OOM_RESIZE)?).ok()
    }

    pub(crate) fn text(self) -> Option<String> {
        serde_json::to_string(&self).ok()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefutedAct {
    Resize,
    /// A resize in place by one step, of a pod that has its target already.
    Step,
    Eviction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefutationCause {
    /// A run that began after the act was OOM killed.
    OomKill,
    /// The container's limit changed while it was stopped, so the pod's cgroup has the old one.
    ContainerStopped,
}

impl RefutedAct {
    pub const ALL: [Self; 3] = [Self::Resize, Self::Step, Self::Eviction];

    /// The act as a label and as a field of log lines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resize => "resize",
            Self::Step => "step",
            Self::Eviction => "eviction",
        }
    }
}

impl RefutationCause {
    pub const ALL: [Self; 2] = [Self::OomKill, Self::ContainerStopped];

    /// The cause as a label and as a field of log lines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OomKill => "oom_kill",
            Self::ContainerStopped => "container_stopped",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAct {
    /// None: the last act is not refuted.
    Wait,
    Resize,
    Step,
    Evict,
    /// None, until the target changes: the pod was killed with the recommended memory.
    Rest,
}

impl NextAct {
    /// The act as words of an event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "none yet",
            Self::Resize => "a resize to the new target",
            Self::Step => "a resize by 1Mi while the container runs",
            Self::Evict => "an eviction within the budgets",
            Self::Rest => "none until the target changes",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refutation {
    pub vpa: ObjectKey,
    /// The pod. Of an eviction: the replacement.
    pub pod: ObjectKey,
    pub pod_uid: String,
    pub container: String,
    pub act: RefutedAct,
    /// The time of the act, or when its effect was first observed; `None` if it is not known.
    pub acted_at: Option<Timestamp>,
    pub cause: RefutationCause,
    /// The memory limit of the container by its status.
    pub limit: Option<Quantity>,
    pub next: NextAct,
}

/// The observations of one container, and the acts that its VPA object allows.
// Each is one observation.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Evidence {
    /// Start and end of the run that was OOM killed last.
    pub(crate) killed_run: Option<[Timestamp; 2]>,
    /// The last resize after an OOM kill, by its annotation.
    pub(crate) last: Option<OomResize>,
    /// The time from which on the pod was observed with its present limits.
    pub(crate) size_since: Option<Timestamp>,
    pub(crate) was_resized: bool,
    /// Whether the pod's cgroup lacks the present limit, as observed.
    pub(crate) is_outdated: bool,
    /// Whether the pod's cgroup depends on the container's limit.
    pub(crate) is_bounded: bool,
    /// Whether the pod replaces one that was evicted for the present target.
    pub(crate) is_replacement: bool,
    pub(crate) has_target: bool,
    /// Whether the mode allows resizes of the limit.
    pub(crate) may_step: bool,
    pub(crate) may_evict: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) refuted: Option<(RefutedAct, RefutationCause)>,
    pub(crate) next: NextAct,
    /// Refuted resizes in a row, for the annotation of the next one.
    pub(crate) refuted_resizes: u32,
}

impl Evidence {
    pub(crate) fn acted_at(&self) -> Option<Timestamp> {
        let observed = self.size_since.filter(|_| self.was_resized);
        self.last.map(|last| last.at).or(observed)
    }

    /// Judges the last act. Without one, or without an OOM kill, nothing is refuted.
    pub(crate) fn judge(&self) -> Verdict {
        let refuted = self.refuted();
        let earlier = self.last.map_or(0, |last| last.refuted);
        let refuted_resizes = refuted.map_or(0, |_| earlier.saturating_add(1));
        let evict_or_rest = if self.may_evict {
            NextAct::Evict
        } else {
            NextAct::Rest
        };
        let next = match refuted {
            _ if !self.has_target => {
                let is_last = self.is_bounded && refuted_resizes >= MAX_REFUTED_RESIZES;
                if is_last && self.may_evict {
                    NextAct::Evict
                } else {
                    NextAct::Resize
                }
            }
            Some((RefutedAct::Eviction, _)) => NextAct::Rest,
            // A cgroup outside the container's limits is not mended by a change of them.
            Some(_) if !self.is_bounded => NextAct::Rest,
            Some((RefutedAct::Resize, _)) if self.may_step => NextAct::Step,
            // The step itself met a stopped container, and nothing else is allowed.
            Some((RefutedAct::Step, RefutationCause::ContainerStopped))
                if self.may_step && !self.may_evict =>
            {
                NextAct::Step
            }
            Some(_) => evict_or_rest,
            // Its cgroup has the target since its start: the target is too small.
            None if self.killed_run.is_some() && !self.was_resized => NextAct::Rest,
            None => NextAct::Wait,
        };
        Verdict {
            refuted,
            next,
            refuted_resizes,
        }
    }

    fn refuted(&self) -> Option<(RefutedAct, RefutationCause)> {
        let act = match self.last {
            Some(OomResize {
                act: ResizeAct::Step,
                ..
            }) => RefutedAct::Step,
            Some(_) => RefutedAct::Resize,
            None if self.was_resized => RefutedAct::Resize,
            None => {
                let is_refuted = self.is_replacement && self.has_target;
                let kill = self.killed_run.filter(|_| is_refuted);
                return kill.map(|_| (RefutedAct::Eviction, RefutationCause::OomKill));
            }
        };
        if self.is_outdated {
            return Some((act, RefutationCause::ContainerStopped));
        }
        let acted_at = self.acted_at()?;
        let [began, ended] = self.killed_run?;
        // A kubelet reports whole seconds.
        let is_later = began.as_second() > acted_at.as_second();
        let was_in_effect = ended.duration_since(acted_at) > OOM_RESIZE_EFFECT_WITHIN;
        (is_later || was_in_effect).then_some((act, RefutationCause::OomKill))
    }
}

/// The sizes of a step: one MiB more for the container's limit, and for a request that is equal to
/// it, so that the quality-of-service class stays. `None` without a limit.
pub(crate) fn step_sizes(running: &Running, container: &str) -> Option<DesiredSizes> {
    let memory = |list: &Option<ResourceList>| list.as_ref()?.memory().map(Memory::bytes);
    let mut has_limit = false;
    let sizes = sized_containers(running, true)
        .map(|sized| {
            let limit = memory(&sized.limits).filter(|_| sized.name == container)?;
            has_limit = true;
            let raised = Quantity::from(Memory::from_bytes(limit.saturating_add(STEP)));
            let is_equal = memory(&sized.requests) == Some(limit);
            let list = |is_raised: bool| {
                let raised = is_raised.then(|| (ResourceName::Memory, raised.clone()));
                raised.into_iter().collect()
            };
            Some(ContainerSize::of(list(is_equal), list(true)))
        })
        .collect();
    has_limit.then_some(sizes)
}

/// Whether a container has the memory of a desired size, by its specification and its status.
pub(crate) fn has_memory(container: &ContainerSpec, size: &ContainerSize) -> bool {
    let has = |(list, desired): (&ResourceList, &ResourceList)| {
        let (present, desired) = (memory_of(list), memory_of(desired));
        desired.is_none() || present >= desired
    };
    let mut lists = [specified(container), effective(container)]
        .into_iter()
        .flat_map(|lists| lists.into_iter().zip([&size.requests, &size.limits]));
    lists.all(has)
}

/// Whether the status of a container still has another memory limit than its specification: the
/// kubelet waits for room, for a lower usage, or has not seen the resize.
pub(crate) fn awaits_kubelet(container: &ContainerSpec) -> bool {
    memory_of(effective(container)[1]) != memory_of(specified(container)[1])
}

/// Stopped containers, for whose next run a resize must wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// The end of the last run; `None` if there was none, or if the kubelet does not report it.
    pub(crate) since: Option<Timestamp>,
}

/// The stopped containers for which a resize must wait: it changes memory limits, the pod's cgroup
/// depends on them, and none of these containers runs. `None` if the resize takes effect at once.
pub(crate) fn stopped(pod: &Pod, running: &Running, sizes: &DesiredSizes) -> Option<Stopped> {
    // The kubelet resizes the cgroup of a pod as a whole at any time.
    if !pod.memory_cgroup.is_sum || running.whole_of.is_some() {
        return None;
    }
    let limited = resized_containers(running, sizes).filter(|(container, size)| {
        let desired = memory_of(&size.limits);
        desired.is_some() && memory_of(specified(container)[1]) != desired
    });
    let mut stopped: Option<Stopped> = None;
    for (container, _) in limited {
        let status = status(pod, &container.name)?;
        let end = match &status.state {
            ContainerState::Running => return None,
            ContainerState::Terminated(end) => Some(end),
            ContainerState::Waiting => status.last_termination.as_ref(),
        };
        let since = end.and_then(|end| end.finished_at);
        let since = since.max(stopped.and_then(|stopped| stopped.since));
        stopped = Some(Stopped { since });
    }
    stopped
}

/// The rest of the time for which a resize waits for the next run after one that ended at `since`;
/// `None` once an eviction is the better act.
pub(crate) fn wait_left(since: Timestamp, now: ClockReading) -> Option<Duration> {
    now.until(since, LONGEST_WAIT_FOR_RUN)
}

fn status<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let sidecars = pod.sidecars.iter().filter(|it| it.name == name);
    let own = pod.containers.iter().filter(|it| it.name == name);
    own.map(|it| it.status.as_ref())
        .chain(sidecars.map(|it| it.status.as_ref()))
        .next()?
}

#[cfg(test)]
mod tests;

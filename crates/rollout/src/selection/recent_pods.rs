//! Recently created pods: whether the webhook reviewed them, and whether they are well. Without a
//! review they start with the requests of their template.

use std::time::Duration;

use jiff::Timestamp;

use api::pod_annotations::{OBSERVED_CONTAINERS, OPT_OUT_LABEL};
use view::{ContainerState, Phase, Pod, Vpa};

use crate::application::APPLIED;
use crate::clock::ClockReading;
use crate::limits::vpa_pause::condition;
use crate::plan::RecentPods;

/// Age up to which a pod counts.
const WINDOW: Duration = Duration::from_mins(10);
/// Age from which a pod that is not ready fails.
const START: Duration = Duration::from_mins(2);
/// Time for which the webhook may not know a new VPA object.
const WATCH_DELAY: Duration = Duration::from_secs(10);

/// Counts pods. Also returns the time after which the numbers change although no pod does.
pub(crate) fn recent_pods<'a>(
    vpa: &Vpa,
    pods: impl Iterator<Item = &'a Pod>,
    now: ClockReading,
) -> (RecentPods, Option<Duration>) {
    let mut recent = RecentPods::default();
    let mut changes_in = None;
    for pod in pods {
        let Some((created, is_reviewed)) = reviewed(vpa, pod) else {
            continue;
        };
        let Some(left) = now.until(created, WINDOW) else {
            continue;
        };
        let running = pod.running.as_deref();
        let is_ready = running.is_some_and(|running| running.ready_since.is_some());
        let starts_for = now.until(created, START).filter(|_| !is_ready);
        recent += RecentPods {
            reviewed: usize::from(is_reviewed),
            unreviewed: usize::from(!is_reviewed),
            ready: usize::from(is_ready),
            failing: usize::from(
                !is_reviewed || has_failed(pod) || !is_ready && starts_for.is_none(),
            ),
        };
        changes_in = starts_for.into_iter().chain([left]).chain(changes_in).min();
    }
    (recent, changes_in)
}

/// The creation of the newest pod, and whether the webhook reviewed it; `None` if no pod tells.
pub(crate) fn newest_review<'a>(
    vpa: &Vpa,
    pods: impl Iterator<Item = &'a Pod>,
) -> Option<(Timestamp, bool)> {
    // In mode Off the webhook marks no pods. The condition begins when the object leaves it.
    let applied = condition(&vpa.object, APPLIED);
    let since = applied.and_then(|applied| applied.last_transition_time.as_ref());
    let pods = pods.filter_map(|pod| reviewed(vpa, pod));
    pods.filter(|(created, _)| since.is_none_or(|since| *created > since.0))
        .max()
}

/// Whether the API server did not call the webhook for a pod.
pub(crate) fn is_unreviewed(vpa: &Vpa, pod: &Pod) -> bool {
    reviewed(vpa, pod).is_some_and(|(_, is_reviewed)| !is_reviewed)
}

/// The time of creation of a pod, and whether the webhook reviewed it. `None` for one that it is not to
/// see, or that may be older than its knowledge of the VPA object.
fn reviewed(vpa: &Vpa, pod: &Pod) -> Option<(Timestamp, bool)> {
    let running = pod.running.as_deref()?;
    let created = running.created_at?;
    let vpa_created = vpa.created_at()?;
    let is_sent = pod.labels.get(OPT_OUT_LABEL) != Some("true");
    let is_known = created.duration_since(vpa_created) > WATCH_DELAY.try_into().ok()?;
    let is_reviewed = running.annotations.contains_key(OBSERVED_CONTAINERS);
    (is_sent && is_known).then_some((created, is_reviewed))
}

/// Whether a container of a pod has ended once.
fn has_failed(pod: &Pod) -> bool {
    let statuses = pod.containers.iter().filter_map(|it| it.status.as_ref());
    let mut statuses = statuses.filter(|_| pod.phase != Phase::Succeeded);
    statuses.any(|status| {
        status.restart_count > 0 || matches!(status.state, ContainerState::Terminated(_))
    })
}

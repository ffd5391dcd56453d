//! Recently created pods, by whether the webhook reviewed them. Without a review they start with
//! the requests of their template.

use std::time::Duration;

use api::pod_annotations::{OBSERVED_CONTAINERS, OPT_OUT_LABEL};
use view::{Pod, Running, Vpa};

use super::clock::ClockReading;

/// Age up to which a pod counts.
const WINDOW: Duration = Duration::from_mins(10);
/// Time for which the webhook may not know a new VPA object.
const WATCH_DELAY: Duration = Duration::from_secs(10);

/// Numbers of pods of one VPA object that were created within the last ten minutes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecentPods {
    /// Pods that the webhook reviewed.
    pub reviewed: usize,
    /// Pods that it did not review.
    pub unreviewed: usize,
}

/// Counts pods. Also returns the time after which the first of them no longer counts.
pub(super) fn recent_pods<'a>(
    vpa: &Vpa,
    pods: impl Iterator<Item = &'a Pod>,
    now: ClockReading,
) -> (RecentPods, Option<Duration>) {
    let mut recent = RecentPods::default();
    let mut changes_in = None;
    for pod in pods {
        let Some((running, left)) = time_left(vpa, pod, now) else {
            continue;
        };
        if running.annotations.contains_key(OBSERVED_CONTAINERS) {
            recent.reviewed += 1;
        } else {
            recent.unreviewed += 1;
        }
        changes_in = changes_in.into_iter().chain([left]).min();
    }
    (recent, changes_in)
}

/// The time for which a pod still counts; `None` for one that does not.
fn time_left<'a>(vpa: &Vpa, pod: &'a Pod, now: ClockReading) -> Option<(&'a Running, Duration)> {
    let running = pod.running.as_deref()?;
    let created = running.created_at?;
    let vpa_created = vpa.object.metadata.creation_timestamp.as_ref()?.0;
    let is_sent = pod.labels.get(OPT_OUT_LABEL) != Some("true");
    let is_known = created.duration_since(vpa_created) > WATCH_DELAY.try_into().ok()?;
    let left = now.until(created, WINDOW)?;
    (is_sent && is_known).then_some((running, left))
}

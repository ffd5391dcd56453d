//! Window of a prediction: the time that new pods of a workload take to become ready, plus a slot
//! of the forecast.
//!
//! The time is measured from the creation of a pod to the first time that it is seen ready. A pod
//! that restarted a container before, or that took more than an hour, is left out: its condition
//! Ready may tell of a later change. Nine of ten of the last pods became ready within it.

use std::sync::Arc;

use jiff::Timestamp;
use view::{ContainerStatus, Pod};

use crate::predictions::MIN_WINDOW;

/// Maximum number of pods that count, the newest ones.
const MAX_PODS: usize = 20;
/// Longest time until a pod is ready that counts, in seconds.
const MAX_SECONDS: u32 = 3600;
/// Times until pods are ready for which windows are made, in minutes. Each is at most a half longer
/// than the one before, or a minute: a window that is somewhat too long costs little.
const STEPS: [u32; 15] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 55];
/// Time until pods are ready while none was measured, in minutes.
const UNMEASURED: u32 = 5;
/// Window while nothing was measured, in seconds.
pub(crate) const DEFAULT_WINDOW: u32 = 60 * UNMEASURED + MIN_WINDOW;

/// Times until recent pods of one workload became ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodReadyTimes(Vec<ReadyPod>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ReadyPod {
    uid: String,
    started_at: Option<Timestamp>,
    seconds: u32,
}

impl PodReadyTimes {
    /// Adds the pods that are ready for the first time, and keeps the newest ones.
    pub fn observe(&mut self, pods: &[Arc<Pod>]) {
        let ready = |pod: &Arc<Pod>| {
            let seconds = pod.ready_after_seconds.filter(|_| !has_restarted(pod))?;
            let seconds = u32::try_from(seconds).ok();
            Some(ReadyPod {
                seconds: seconds.filter(|seconds| *seconds <= MAX_SECONDS)?,
                uid: pod.uid.clone(),
                started_at: pod.started_at,
            })
        };
        let mut ready: Vec<_> = pods.iter().filter_map(ready).collect();
        keep_newest(&mut ready);
        ready.retain(|pod| self.0.iter().all(|known| known.uid != pod.uid));
        self.0.append(&mut ready);
        keep_newest(&mut self.0);
    }

    /// Seconds within which nine of ten pods became ready; `None` without a pod.
    pub fn p90_seconds(&self) -> Option<u32> {
        let mut sorted: Vec<u32> = self.0.iter().map(|pod| pod.seconds).collect();
        sorted.sort_unstable();
        let rank = (sorted.len() * 9).div_ceil(10);
        sorted.get(rank.checked_sub(1)?).copied()
    }
}

fn keep_newest(pods: &mut Vec<ReadyPod>) {
    pods.sort_by(|one, other| (other.started_at, &other.uid).cmp(&(one.started_at, &one.uid)));
    pods.truncate(MAX_PODS);
}

fn has_restarted(pod: &Pod) -> bool {
    let mut statuses = pod.containers.iter().flat_map(|it| &it.status);
    statuses.any(|status: &ContainerStatus| status.restart_count > 0)
}

/// Window in seconds for pods that are ready after some time, in steps. The window before stays
/// while it is long enough and at most twice as long for the pods as needed. `longest` is the one
/// that the user allows.
pub fn window_seconds(ready_seconds: Option<u32>, before: Option<u32>, longest: u32) -> u32 {
    let before = before.filter(|before| *before > MIN_WINDOW);
    let window = match (ready_seconds, before) {
        (None, before) => before.unwrap_or(DEFAULT_WINDOW),
        (Some(ready), Some(before))
            if ready <= before - MIN_WINDOW && 2 * ready >= before - MIN_WINDOW =>
        {
            before
        }
        (Some(ready), _) => {
            let longest = STEPS[STEPS.len() - 1];
            let mut steps = STEPS.into_iter();
            60 * steps.find(|step| 60 * step >= ready).unwrap_or(longest) + MIN_WINDOW
        }
    };
    window.min(longest.max(MIN_WINDOW))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use view::{ContainerState, Phase};

    use super::*;
    use crate::ehpa::tests::fixture::pod;

    const HOUR: u32 = 3600;

    /// A pod that started at a second, and was ready after others.
    fn ready(name: &str, started: i64, seconds: Option<i64>) -> Pod {
        Pod {
            started_at: Timestamp::from_second(started).ok(),
            ready_after_seconds: seconds,
            ..pod(name, Phase::Running)
        }
    }

    fn observed(pods: Vec<Pod>) -> PodReadyTimes {
        let mut times = PodReadyTimes::default();
        let pods: Vec<_> = pods.into_iter().map(Arc::new).collect();
        times.observe(&pods);
        times
    }

    #[test]
    fn nine_of_ten_pods_are_ready_within_the_measured_time() {
        let pods = |times: &[i64]| {
            let pods = times.iter().enumerate();
            let pods = pods.map(|(number, seconds)| ready(&number.to_string(), 0, Some(*seconds)));
            observed(pods.collect())
        };
        for (times, expected) in [
            (&[][..], None),
            (&[7], Some(7)),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9, 1000], Some(9)),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], Some(10)),
            (&[20, 3601, -1, 30], Some(30)),
        ] {
            assert_eq!(pods(times).p90_seconds(), expected, "{times:?}");
        }
    }

    #[test]
    fn pods_that_never_were_ready_or_restarted_before_do_not_count() {
        let mut restarted = ready("b", 0, Some(900));
        restarted.containers[0].status = Some(ContainerStatus {
            restart_count: 1,
            state: ContainerState::Running,
            last_termination: None,
        });
        let times = observed(vec![ready("a", 0, None), restarted]);
        assert_eq!(times.p90_seconds(), None);
    }

    #[test]
    fn the_first_time_counts_also_after_the_pod_is_gone() {
        let mut times = observed(vec![ready("a", 0, Some(30))]);
        for pods in [
            vec![ready("a", 0, Some(2000))],
            vec![ready("a", 0, None)],
            Vec::new(),
        ] {
            times.observe(&pods.into_iter().map(Arc::new).collect::<Vec<_>>());
            assert_eq!(times.p90_seconds(), Some(30));
        }
    }

    #[test]
    fn only_the_newest_pods_count() {
        let old = (0..50).map(|number| ready(&format!("old-{number}"), 0, Some(500)));
        let mut times = observed(old.collect());
        assert_eq!((times.0.len(), times.p90_seconds()), (MAX_PODS, Some(500)));
        let new = (0..MAX_PODS).map(|number| ready(&format!("new-{number}"), 60, Some(40)));
        times.observe(&new.map(Arc::new).collect::<Vec<_>>());
        assert_eq!((times.0.len(), times.p90_seconds()), (MAX_PODS, Some(40)));
    }

    #[test]
    fn the_window_is_the_time_in_steps_and_a_slot() {
        for (ready, before, longest, expected) in [
            (None, None, HOUR, 600),
            (None, Some(900), HOUR, 900),
            (Some(0), None, HOUR, 360),
            (Some(60), None, HOUR, 360),
            (Some(61), None, HOUR, 420),
            (Some(120), None, HOUR, 420),
            (Some(600), None, HOUR, 900),
            (Some(3600), None, HOUR, HOUR),
            // The window stays until it is too short, or twice as long as needed.
            (Some(300), Some(900), HOUR, 900),
            (Some(299), Some(900), HOUR, 600),
            (Some(601), Some(900), HOUR, 1020),
            (Some(600), Some(900), 600, 600),
            (None, None, 60, 300),
        ] {
            let found = window_seconds(ready, before, longest);
            assert_eq!(found, expected, "{ready:?} {before:?} {longest}");
        }
    }

    proptest! {
        #[test]
        fn a_window_covers_the_time_and_settles(
            ready in 0..=3300_u32, before in proptest::option::of(0..90_000_u32), longest in HOUR..90_000,
        ) {
            let window = window_seconds(Some(ready), before, longest);
            prop_assert!(window >= (ready + MIN_WINDOW).min(longest), "{window}");
            prop_assert!(window <= longest && window >= MIN_WINDOW);
            prop_assert!(window <= 2 * ready + MIN_WINDOW || window == 360, "{window}");
            prop_assert_eq!(window_seconds(Some(ready), Some(window), longest), window);
        }
    }
}

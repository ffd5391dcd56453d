//! The executor: applies the recommendations of a policy to one series and scores them.
//!
//! All policies share it, so that only their recommendations differ:
//!
//! 1. A slot is scored with the request in force at its start.
//! 2. Memory: usage above the request is an OOM kill. The request becomes the greatest of itself,
//!    1.2 x usage and usage + 100 MiB, and stays at least that for 24 hours. Provisioned requests
//!    stay as they are.
//! 3. The policy sees the usage of the slot.
//! 4. At every full hour the policy decides. A recommendation is applied if it differs from the
//!    request by more than 10 %.
//! 5. With early raises the policy may also raise the request at the end of every other slot.
//!
//! Several pods have one request in common: rules 1 to 3 apply to each of them, 4 and 5 to the
//! workload. Days then are days of a pod.

use jiff::Timestamp;

use crate::policy::{Policy, Resource};
use crate::score::EntityScore;
use crate::series::{Series, timestamp};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
/// Minimum increase after an OOM kill, in MiB.
const OOM_INCREASE: f64 = 100.0;
/// Minimum factor between usage and request after an OOM kill.
const OOM_FACTOR: f64 = 1.2;

/// Rules for applying recommendations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Executor {
    pub resource: Resource,
    /// Minimum relative difference of an applied recommendation.
    pub deadband: f64,
    pub early_raises: bool,
    /// Seconds at the start that are not scored.
    pub warm_up: i64,
}

impl Executor {
    /// Hourly decisions, a deadband of 10 %, a warm-up of eight days.
    pub fn new(resource: Resource) -> Self {
        Self {
            resource,
            deadband: 0.1,
            early_raises: false,
            warm_up: 8 * DAY,
        }
    }

    /// The request after an OOM kill at this usage, in MiB.
    fn raised(usage: f64) -> f64 {
        (usage * OOM_FACTOR).max(usage + OOM_INCREASE)
    }

    /// Replays the pods of a workload from the provisioned request of the first one. Slots count
    /// from the earliest start, and all pods have the step of the first one. No pods have no score.
    pub fn trace_pods(
        &self,
        pods: &[Series],
        policy: &mut dyn Policy,
        mut report: impl FnMut(usize, f64),
    ) -> EntityScore {
        let Some(grid) = Grid::of(pods) else {
            return EntityScore::default();
        };
        let first = &pods[0];
        let warm_up = first.slots(self.warm_up);
        let mut score = EntityScore::new(first.slots(DAY));
        let mut request = first.provisioned;
        // The floor after an OOM kill and the first slot without it.
        let mut floor = (0.0, 0);
        for slot in 0..grid.slots {
            let is_scored = slot >= warm_up;
            let (at, now) = (grid.time(slot), grid.time(slot + 1));
            report(slot, request);
            let mut highest = 0.0_f64;
            let in_force = request;
            for (pod, usage) in grid.usage(pods, slot) {
                if is_scored {
                    score.add_slot(usage, in_force);
                }
                if usage > in_force && self.resource == Resource::Memory {
                    if policy.is_raised_by_oom() {
                        request = request.max(Self::raised(usage));
                        floor = (request, slot + 1 + first.slots(DAY));
                    }
                    policy.oom(at, in_force);
                    score.add_oom(is_scored);
                }
                policy.observe(pod, at, usage);
                highest = highest.max(usage);
            }
            let decides = now.as_second() % HOUR == 0;
            let recommended = if decides {
                policy.recommend(now, request)
            } else if self.early_raises {
                let raised = policy.raise(now, highest, request);
                raised.filter(|raised| *raised > request)
            } else {
                None
            };
            let Some(mut wanted) = recommended else {
                continue;
            };
            if slot < floor.1 {
                wanted = wanted.max(floor.0);
            }
            if (wanted - request).abs() > self.deadband * request {
                request = wanted;
                score.add_change(is_scored);
            }
        }
        score.finish();
        score
    }
}

/// The slots of all pods of a workload, which have the step of the first one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// Start of the first slot in seconds since 1970.
    pub start: i64,
    /// Length of a slot in seconds.
    pub step: i64,
    pub slots: usize,
    /// First slot of each pod.
    pub offsets: Vec<usize>,
}

impl Grid {
    /// The grid from the earliest start to the last end; `None` without pods.
    pub fn of(pods: &[Series]) -> Option<Self> {
        let start = pods.iter().map(|pod| pod.start).min()?;
        let step = pods.first()?.step;
        let offset = |pod: &Series| usize::try_from((pod.start - start) / step).unwrap_or(0);
        let offsets: Vec<usize> = pods.iter().map(offset).collect();
        let ends = pods.iter().zip(&offsets);
        let slots = ends.map(|(pod, offset)| offset + pod.usage.len()).max()?;
        Some(Self {
            start,
            step,
            slots,
            offsets,
        })
    }

    fn time(&self, slot: usize) -> Timestamp {
        timestamp(self.start + self.step * slot as i64)
    }

    /// Number and usage of the pods that have the slot.
    fn usage<'a>(
        &'a self,
        pods: &'a [Series],
        slot: usize,
    ) -> impl Iterator<Item = (usize, f64)> + 'a {
        let pods = pods.iter().zip(&self.offsets).enumerate();
        pods.filter_map(move |(number, (pod, offset))| {
            let usage = pod.usage.get(slot.checked_sub(*offset)?)?;
            Some((number, *usage))
        })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    struct Constant(f64);

    impl Policy for Constant {
        fn observe(&mut self, _pod: usize, _at: Timestamp, _usage: f64) {}

        fn recommend(&mut self, _now: Timestamp, _request: f64) -> Option<f64> {
            Some(self.0)
        }
    }

    /// Usage from the third hour on, the recommended amount, and the requests in force at the
    /// beginning of hours.
    fn check(resource: Resource, usage: f64, recommended: f64, expected: &[(usize, f64)]) {
        let slots = (0..30 * 12).map(|slot| if slot < 24 { 10.0 } else { usage });
        let mut series = Series {
            start: 0,
            step: 300,
            usage: slots.collect(),
            provisioned: 1000.0,
        };
        series.usage[25..].fill(10.0);
        let mut requests = Vec::new();
        let executor = Executor::new(resource);
        executor.trace_pods(&[series], &mut Constant(recommended), |_, request| {
            requests.push(request);
        });
        for (hour, request) in expected {
            let found = requests[hour * 12];
            assert!((found - request).abs() < 1e-9, "hour {hour}: {found}");
        }
    }

    #[test]
    fn a_difference_within_the_deadband_is_not_applied() {
        check(Resource::Cpu, 10.0, 1099.0, &[(0, 1000.0), (3, 1000.0)]);
        check(Resource::Cpu, 10.0, 1101.0, &[(0, 1000.0), (1, 1101.0)]);
        check(Resource::Cpu, 10.0, 899.0, &[(0, 1000.0), (1, 899.0)]);
    }

    #[test]
    fn an_oom_kill_raises_the_request_for_a_day() {
        check(
            Resource::Memory,
            300.0,
            200.0,
            &[(2, 200.0), (3, 400.0), (26, 400.0), (28, 200.0)],
        );
        check(Resource::Memory, 1000.0, 200.0, &[(3, 1200.0), (28, 200.0)]);
        check(Resource::Cpu, 300.0, 200.0, &[(3, 200.0)]);
    }

    #[test]
    fn a_provisioned_request_stays_after_oom_kills() {
        let series = Series {
            start: 0,
            step: 3600,
            usage: vec![300.0; 48],
            provisioned: 100.0,
        };
        let executor = Executor {
            warm_up: DAY,
            ..Executor::new(Resource::Memory)
        };
        let score = executor.trace_pods(&[series], &mut crate::peers::Provisioned, |_, _| ());
        assert_eq!((score.ooms, score.requested), (24.0, 2400.0));
    }

    #[test]
    fn pods_share_a_request_and_begin_when_they_begin() {
        let pod = |start, usage: &[f64]| Series {
            start,
            step: 1800,
            usage: usage.to_vec(),
            provisioned: 100.0,
        };
        let pods = [pod(0, &[10.0; 4]), pod(1800, &[200.0, 10.0])];
        let executor = Executor {
            warm_up: 0,
            ..Executor::new(Resource::Memory)
        };
        let mut requests = Vec::new();
        let score = executor.trace_pods(&pods, &mut Constant(100.0), |_, request| {
            requests.push(request);
        });
        // The kill of the second pod raises the request of both. The executor never scores the
        // first slot without it, because its warm-up is at least one slot.
        assert_eq!(requests, [100.0, 100.0, 300.0, 300.0]);
        assert_eq!((score.slots, score.ooms, score.usage), (5.0, 1.0, 240.0));
        let nothing = executor.trace_pods(&[], &mut Constant(1.0), |_, _| ());
        assert_eq!(nothing, EntityScore::default());
    }
}

//! The executor: applies the recommendations of a policy to one series and scores them.
//!
//! All policies share it, so that only their recommendations differ:
//!
//! 1. A slot is scored with the request in force at its start.
//! 2. Memory: usage above the request is an OOM kill. The request becomes the greatest of itself,
//!    1.2 x usage and usage + 100 MiB, and stays at least that for 24 hours.
//! 3. The policy sees the usage of the slot.
//! 4. At every full hour the policy decides. A recommendation is applied if it differs from the
//!    request by more than 10 %.
//! 5. With early raises the policy may also raise the request at the end of every other slot.

use crate::policy::{Policy, Resource};
use crate::score::EntityScore;
use crate::series::Series;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
/// Minimum increase after an OOM kill, in MiB.
const OOM_INCREASE: f64 = 100.0;
/// Minimum factor between usage and request after an OOM kill.
const OOM_FACTOR: f64 = 1.2;

/// Rules for applying recommendations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Executor {
    /// The resource.
    pub resource: Resource,
    /// Minimum relative difference of an applied recommendation.
    pub deadband: f64,
    /// Whether requests are raised between decisions.
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
    pub fn raised(usage: f64) -> f64 {
        (usage * OOM_FACTOR).max(usage + OOM_INCREASE)
    }

    /// Replays a series from its provisioned request.
    pub fn run(&self, series: &Series, policy: &mut dyn Policy) -> EntityScore {
        self.trace(series, policy, |_, _| ())
    }

    /// Replays a series and reports the request in force in every slot.
    pub fn trace(
        &self,
        series: &Series,
        policy: &mut dyn Policy,
        mut report: impl FnMut(usize, f64),
    ) -> EntityScore {
        let warm_up = series.slots(self.warm_up);
        let mut score = EntityScore::new(series.slots(DAY));
        let mut request = series.provisioned;
        // The floor after an OOM kill and the first slot without it.
        let mut floor = (0.0, 0);
        for (slot, usage) in series.usage.iter().copied().enumerate() {
            let is_scored = slot >= warm_up;
            let (at, now) = (series.time(slot), series.time(slot + 1));
            report(slot, request);
            if is_scored {
                score.add_slot(usage, request);
            }
            if usage > request && self.resource == Resource::Memory {
                let raised = request.max(Self::raised(usage));
                floor = (raised, slot + 1 + series.slots(DAY));
                policy.oom(at, request);
                request = raised;
                score.add_oom(is_scored);
            }
            policy.observe(at, usage);
            let decides = now.as_second() % HOUR == 0;
            let recommended = if decides {
                policy.recommend(now, request)
            } else if self.early_raises {
                let raised = policy.raise(now, usage, request);
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    /// Recommends a constant.
    struct Constant(f64);

    impl Policy for Constant {
        fn observe(&mut self, _at: Timestamp, _usage: f64) {}

        fn recommend(&mut self, _now: Timestamp, _request: f64) -> Option<f64> {
            Some(self.0)
        }
    }

    /// Usage from the third hour on, the recommended amount, and the requests in force at the
    /// beginning of hours.
    fn check(resource: Resource, usage: f64, recommended: f64, expected: &[(usize, f64)]) {
        let slots = (0..30 * 12).map(|slot| if slot < 24 { 10.0 } else { usage });
        let mut series = Series {
            name: String::new(),
            start: 0,
            step: 300,
            usage: slots.collect(),
            provisioned: 1000.0,
        };
        series.usage[25..].fill(10.0);
        let mut requests = Vec::new();
        let executor = Executor::new(resource);
        executor.trace(&series, &mut Constant(recommended), |_, request| {
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
}

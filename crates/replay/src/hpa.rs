//! The native HPA of one workload between its passes.

use jiff::{SignedDuration, Timestamp};
use scaling::hpa::{
    Behavior, Bounds, History, Metric, Pod, Proposal, ReadinessDelays, Tolerance, Workload, combine,
};

/// Default of `--horizontal-pod-autoscaler-downscale-stabilization`.
const DOWNSCALE_WINDOW: SignedDuration = SignedDuration::from_mins(5);

/// An HPA with one metric and the controller manager's defaults.
pub struct Hpa {
    metric: Metric,
    bounds: Bounds,
    behavior: Behavior,
    history: History,
}

impl Hpa {
    pub fn new(metric: Metric, bounds: Bounds, replicas: i32, now: Timestamp) -> Self {
        Self {
            metric,
            bounds,
            behavior: Behavior::default(),
            history: History::new(replicas, DOWNSCALE_WINDOW, now),
        }
    }

    /// The number of replicas after a pass, from the proposals of the metric.
    pub fn pass(
        &mut self,
        current: i32,
        pods: &[Pod],
        now: Timestamp,
        propose: impl FnOnce(&Workload, &Metric) -> Vec<Result<Proposal, String>>,
    ) -> i32 {
        let workload = Workload {
            pods,
            spec_replicas: current,
            status_replicas: current,
            tolerance: Tolerance::default(),
            delays: ReadinessDelays::default(),
            now,
        };
        let proposals = propose(&workload, &self.metric);
        let Some(proposal) = combine(current, &proposals).replicas else {
            return current;
        };
        let behavior = Some(&self.behavior);
        let normalised = self
            .history
            .normalise(proposal, current, self.bounds, behavior, now);
        self.history
            .scaled(current, normalised.replicas, behavior, now);
        normalised.replicas
    }
}

//! Per-VPA sizing policies: samples in, recommendation out.
//!
//! The target is the policy's. The bounds are the VPA's, widened to include the target: they define
//! when an update is urgent, which the other policies do not. Our own policy changes its target only
//! when a change pays, and raises must come at once. So its lower bound is the target less the
//! updater's threshold of 10 %, and its upper bound at least the target plus that. If its history
//! counts in runs, the bounds are the median and the largest expected need of the runs: a change of
//! the target alone is no reason to interrupt a run. Autopilot's and
//! our own targets are at least the configured minimum of a container; Crane's have their own
//! minimum (one bucket and its margin). Rounding, whole cores and limits apply to all.
//!
//! Until a container has the policy's minimum history, its published recommendation is kept and
//! only raised: see [`ClusterState::keep_published`].

use std::collections::HashSet;

use model::{MethodStep, WHOLE_POD, fnv1a};
use sizing::{
    Amounts, Estimate, Instant, MethodSettings, MethodTarget, Observation, ScalingMode,
    SizingMethod, policy_for,
};

use super::ClusterState;
use super::histories::{Histories, names};
use super::method_history::MethodHistories;
use super::namespace::Namespace;
use super::vpa::Vpa;

impl ClusterState {
    /// Ends the runs of pods that have finished or are gone. It may be called at any time: the pods
    /// as they are now decide.
    pub fn end_runs(&mut self) {
        for namespace in self.namespaces.values_mut() {
            namespace.end_runs();
        }
    }
}

impl Namespace {
    /// Passes an observation of a container to the per-VPA policies of the VPAs that select
    /// its pod.
    pub(super) fn observe(&mut self, pod: &str, container: &str, seen: Observation, at: Instant) {
        let Histories {
            ref groups,
            ref selections,
            ref mut vpas,
            ..
        } = self.histories;
        let group = self.pods.get(pod).and_then(|pod| groups.get(pod.group));
        // The name identifies the pod also after a restart.
        let pod = fnv1a(pod.as_bytes());
        for name in group
            .iter()
            .flat_map(|group| names(selections, &group.selections))
        {
            if let Some(vpa) = vpas.get_mut(name) {
                vpa.observe(pod, container, seen, at);
            }
        }
    }

    fn end_runs(&mut self) {
        let counts_runs = |vpa: &Vpa| vpa.own.iter().any(|own| own.counts_runs());
        let histories = &mut self.histories;
        if histories.per_vpa_policies == 0 || !histories.vpas.values().any(counts_runs) {
            return;
        }
        let running = self.pods.iter().filter(|(_, pod)| !pod.phase.is_finished());
        let running = running.map(|(name, _)| fnv1a(name.as_bytes()));
        let running: HashSet<u64> = running.collect();
        let vpas = histories.vpas.values_mut();
        for histories in vpas.filter_map(|vpa| vpa.own.as_deref_mut()) {
            histories.end_runs(|pod| running.contains(&pod));
        }
    }
}

impl Vpa {
    /// The estimate of the VPA's own policy; `None` without such a policy or enough history.
    pub(super) fn by_per_vpa_policy(
        &self,
        container: &str,
        minimum: Amounts,
        estimate: Estimate,
    ) -> Option<Estimate> {
        let Some((policy, histories)) = self.method() else {
            return Some(estimate);
        };
        let history = histories.get(container)?;
        let target = history.recommend(policy)?;
        let target = match &policy.method {
            SizingMethod::Crane(_) => target,
            SizingMethod::Autopilot(_) | SizingMethod::PriceOfFailure(_) => target.max(minimum),
        };
        let (lower_bound, upper_bound) = match &policy.method {
            SizingMethod::Crane(_) | SizingMethod::Autopilot(_) => (
                estimate.lower_bound.min(target),
                estimate.upper_bound.max(target),
            ),
            SizingMethod::PriceOfFailure(_) if policy.method.counts_runs() => {
                let [lower, upper] = history.bounds_of_runs(policy)?;
                (lower.min(target), upper.max(target))
            }
            SizingMethod::PriceOfFailure(_) => (
                target.map(urgent_below),
                estimate.upper_bound.max(target.map(urgent_above)),
            ),
        };
        Some(Estimate {
            target,
            lower_bound,
            upper_bound,
        })
    }

    /// Its target with the steps; `None` without such a policy or enough history.
    pub(super) fn explain_per_vpa_policy(
        &self,
        container: &str,
        minimum: Amounts,
        vpa: Estimate,
    ) -> Option<MethodTarget> {
        let (policy, histories) = self.method()?;
        let target = self.by_per_vpa_policy(container, minimum, vpa)?.target;
        let mut steps = histories.get(container)?.explain(policy)?;
        let amounts = [
            (target.cpu.millicores(), "millicores"),
            (target.memory.bytes(), "bytes"),
        ];
        for (steps, (amount, unit)) in steps.iter_mut().zip(amounts) {
            steps.push(MethodStep::number("at-least-minimum", amount as f64, unit));
        }
        Some(MethodTarget { target, steps })
    }

    pub(super) fn observe(&mut self, pod: u64, container: &str, seen: Observation, at: Instant) {
        if self.own.is_none() || !self.is_sized(container) {
            return;
        }
        if let Some((policy, histories)) = self.method_mut() {
            histories.observe(policy, pod, container, seen, at);
        }
    }

    pub(super) fn is_sized(&self, container: &str) -> bool {
        let policy = policy_for(&self.spec.policies, container);
        policy.map_or(container != WHOLE_POD, |it| it.mode == ScalingMode::Auto)
    }

    /// Creates or drops the history of the VPA's own policy after the policy changed.
    pub(super) fn reset_policy_history(
        &mut self,
        before: Option<&MethodSettings>,
        awaits_earlier: bool,
    ) {
        let Some(policy) = self.spec.sizing.as_deref() else {
            self.own = None;
            return;
        };
        let keeps = before.is_some_and(|before| policy.shares_history_with(before));
        if !keeps || self.own.is_none() {
            self.own = Some(Box::new(MethodHistories::new(awaits_earlier)));
        }
    }
}

/// Requests below this are smaller than our own method's target by more than the updater's
/// threshold.
fn urgent_below(target: i64) -> i64 {
    target - target / 11
}

/// Requests above this are larger than our own method's target by more than the updater's threshold.
fn urgent_above(target: i64) -> i64 {
    target.saturating_add(target / 9)
}

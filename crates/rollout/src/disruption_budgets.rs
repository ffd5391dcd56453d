//! The disruptions that `PodDisruptionBudget`s allow. They are read before an eviction is sent, so
//! that the API server refuses none, and apply to restarts by resizes too.
//!
//! The rules of the API server are in `view::DisruptionBudget`. Evictions that it accepted and the
//! budget's status does not show yet are added here, and restarts of containers, which it does not
//! count. The pods' own readiness counts as well: the status of a budget may be older. Source:
//! `pkg/registry/core/pod/storage/eviction.go` of Kubernetes.

use std::collections::HashMap;

use view::{BudgetPods, Matched, ObjectKey, Phase, Pod, Running};

use crate::clock::ClockReading;
use crate::limits::disruption_limit::{Disruption, PodAvailability};
use crate::skip::SkipReason;
use crate::state::RolloutState;
use crate::vpa_pods::availability;

/// The disruption budgets, and their use in this pass.
pub(super) struct Budgets<'a> {
    matched: &'a Matched,
    state: &'a RolloutState,
    now: ClockReading,
    /// The use of budgets that were looked up.
    usages: HashMap<&'a ObjectKey, BudgetUsage>,
}

#[derive(Debug, Clone, Copy, Default)]
struct BudgetUsage {
    /// Disruptions that its status does not show yet.
    unobserved: i64,
    /// Available pods, less those disrupted.
    available: i64,
}

impl<'a> Budgets<'a> {
    /// Budgets with the actions in flight counted.
    pub(super) fn of(matched: &'a Matched, state: &'a RolloutState, now: ClockReading) -> Self {
        Self {
            matched,
            state,
            now,
            usages: HashMap::new(),
        }
    }

    pub(super) fn covering(&self, pod: &Pod) -> Vec<&'a BudgetPods> {
        self.matched.budgets_of(&pod.key).collect()
    }

    /// An error if a disruption of a pod is not allowed now.
    pub(super) fn check(
        &mut self,
        disruption: Disruption,
        pod: &Pod,
        running: &Running,
    ) -> Result<(), SkipReason> {
        if disruption == Disruption::Resize || pod.phase == Phase::Pending {
            return Ok(());
        }
        let mut covering = self.covering(pod).into_iter();
        if disruption == Disruption::Eviction && covering.len() > 1 {
            return Err(SkipReason::MultipleBudgets);
        }
        let is_allowed = covering.all(|found| self.allows(found, pod, running));
        is_allowed.then_some(()).ok_or(SkipReason::DisruptionBudget)
    }

    /// An error if an eviction of unknown outcome, which is counted already, must not be sent again.
    pub(super) fn check_retry(&mut self, pod: &Pod, running: &Running) -> Result<(), SkipReason> {
        if pod.phase == Phase::Pending || !is_ready(running) {
            return Ok(());
        }
        let mut covering = self.covering(pod).into_iter();
        let is_allowed = covering
            .all(|found| self.usage(found).available >= i64::from(found.budget.desired_healthy));
        is_allowed.then_some(()).ok_or(SkipReason::DisruptionBudget)
    }

    /// Whether one budget allows the disruption of a pod.
    ///
    /// A pod that waits for a restart by a resize is ready, but counts as unavailable already: its
    /// eviction leaves as many available pods.
    fn allows(&mut self, found: &'a BudgetPods, pod: &Pod, running: &Running) -> bool {
        let budget = &found.budget;
        if !is_ready(running) {
            return budget.allows(false);
        }
        let usage = *self.usage(found);
        let left = usage.available - i64::from(is_available(pod, running, self.state));
        let is_enough = left >= i64::from(budget.desired_healthy);
        budget.is_current() && i64::from(budget.disruptions_allowed) > usage.unobserved && is_enough
    }

    fn usage(&mut self, BudgetPods { budget, pods }: &'a BudgetPods) -> &mut BudgetUsage {
        let (state, now) = (self.state, self.now);
        self.usages.entry(&budget.key).or_insert_with(|| {
            let mut usage = BudgetUsage::default();
            for pod in pods.values() {
                let Some(running) = pod.running.as_deref() else {
                    continue;
                };
                let pending = state.pending_disruption(&pod.uid);
                let is_evicted = pending == Some(Disruption::Eviction);
                let is_available = is_available(pod, running, state);
                usage.available += i64::from(is_available && !is_evicted);
                let is_unobserved =
                    pending.is_some_and(|disruption| is_disruption(disruption, pod, running));
                usage.unobserved +=
                    i64::from(is_unobserved && !budget.is_disrupting(&pod.key.name, now.wall));
            }
            usage
        })
    }

    /// Counts a disruption of a pod; an error if it is not allowed.
    pub(super) fn reserve(
        &mut self,
        disruption: Disruption,
        pod: &Pod,
        running: &Running,
    ) -> Result<(), SkipReason> {
        self.check(disruption, pod, running)?;
        if !is_disruption(disruption, pod, running) {
            return Ok(());
        }
        let is_available = is_available(pod, running, self.state);
        for found in self.covering(pod) {
            let shows = found.budget.is_disrupting(&pod.key.name, self.now.wall);
            let usage = self.usage(found);
            usage.available -= i64::from(is_available);
            usage.unobserved += i64::from(!shows);
        }
        Ok(())
    }
}

fn is_disruption(disruption: Disruption, pod: &Pod, running: &Running) -> bool {
    disruption != Disruption::Resize && pod.phase != Phase::Pending && is_ready(running)
}

fn is_available(pod: &Pod, running: &Running, state: &RolloutState) -> bool {
    let pending = state.pending(&pod.uid);
    availability(pod, running, pending) == (PodAvailability::Running { available: true })
}

fn is_ready(running: &Running) -> bool {
    running.ready_since.is_some()
}

//! The decisions that remain valid until something changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use view::{Matched, VpaOrder};

use crate::clock::ClockReading;
use crate::limits::pod_health::{HealthQuery, HealthReadings};
use crate::plan::Plan;

/// The drift between the two clocks that counts as a jump of the wall clock, after which all
/// decisions are made anew.
const CLOCK_JUMP: SignedDuration = SignedDuration::from_secs(1);

/// The decisions about all VPA objects with pods, and the objects that they were made from.
#[derive(Debug, Clone)]
pub(crate) struct DecisionCache {
    pub(crate) matched: Matched,
    pub(crate) by_vpa: BTreeMap<VpaOrder, VpaDecision>,
    pub(crate) began: ClockReading,
}

#[derive(Debug, Clone)]
pub(crate) struct VpaDecision {
    pub(crate) plan: Plan,
    /// Unique identifiers of the owners of the pods, or of their shares.
    pub(crate) owners: Vec<String>,
    /// The time at which another decision is due although nothing changes, by the monotonic clock.
    pub(crate) due: Option<Duration>,
    /// Whether another decision is due in each pass, since time alone may change it at any moment.
    pub(crate) is_time_dependent: bool,
}

impl DecisionCache {
    /// Whether both clocks have advanced by the same since the first decision.
    pub(crate) fn clocks_agree(&self, now: ClockReading) -> bool {
        let monotonic =
            SignedDuration::try_from(now.monotonic.saturating_sub(self.began.monotonic))
                .unwrap_or(SignedDuration::MAX);
        let apart = now
            .wall
            .duration_since(self.began.wall)
            .saturating_sub(monotonic);
        apart.abs() < CLOCK_JUMP
    }

    pub(crate) fn mark_due(&mut self, now: ClockReading) {
        for ((_, name, namespace), decision) in &self.by_vpa {
            let is_due = decision.due.is_some_and(|due| due <= now.monotonic);
            if is_due || decision.is_time_dependent {
                self.matched.mark_vpa(namespace, name);
            }
        }
    }

    /// Marks the VPA objects with a query that has other values now.
    pub(crate) fn mark_read(&mut self, earlier: &HealthReadings, now: &HealthReadings) {
        let newest = |readings: &HealthReadings, query: &HealthQuery| {
            readings.get(query)?.first().map(Arc::as_ptr)
        };
        let is_new = |query: &HealthQuery| newest(earlier, query) != newest(now, query);
        for ((_, name, namespace), decision) in &self.by_vpa {
            if decision.plan.health_queries.iter().any(is_new) {
                self.matched.mark_vpa(namespace, name);
            }
        }
    }

    /// Removes the decisions about removed and marked VPA objects. Returns the owners of their pods.
    pub(crate) fn take_outdated(&mut self) -> Vec<String> {
        let marked = self.matched.marked().into_iter();
        let mut outdated: Vec<_> = marked.map(|vpa_pods| vpa_pods.order.clone()).collect();
        outdated.extend(self.matched.take_removed());
        let outdated = outdated.iter().filter_map(|vpa| self.by_vpa.remove(vpa));
        outdated.flat_map(|decision| decision.owners).collect()
    }

    pub(crate) fn plan(&self, now: ClockReading) -> Plan {
        let mut all = Plan::default();
        for VpaDecision { plan, due, .. } in self.by_vpa.values() {
            all.actions.extend(plan.actions.iter().cloned());
            all.skips.extend(plan.skips.iter().cloned());
            all.refutations.extend(plan.refutations.iter().cloned());
            all.rollbacks.extend(plan.rollbacks.iter().cloned());
            all.health_queries
                .extend(plan.health_queries.iter().cloned());
            all.paused.extend(plan.paused.iter().cloned());
            all.pod_counts.extend(plan.pod_counts.iter().cloned());
            all.wake_in = due
                .map(|due| due.saturating_sub(now.monotonic))
                .into_iter()
                .chain(all.wake_in)
                .min();
        }
        all
    }
}

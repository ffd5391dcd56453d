//! Limits the time that the queries of one namespace take in the store.
//!
//! Places alone do not: a few slow queries at a time keep a small store busy for good. As in API
//! Priority and Fairness, a query is charged for the time that it took, cancelled or not.

use std::sync::Arc;
use std::time::Duration;

use model::FairSlots;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::flow_limiter::{Flow, PriorityLevel};

/// Store time that a namespace gets back per second.
const RATE: f64 = 1.0 / 8.0;
/// Seconds of store time that a namespace may use at once.
const BURST: f64 = 1.0;

/// The store time that namespaces have used. Flows of the cluster-wide level are not limited.
#[derive(Debug)]
pub(super) struct QueryTimeLimiter {
    used: Mutex<FairSlots<Arc<str>>>,
    began: Instant,
}

impl Default for QueryTimeLimiter {
    fn default() -> Self {
        let used = FairSlots::new(usize::MAX, usize::MAX).with_time(BURST, RATE);
        Self {
            used: Mutex::new(used),
            began: Instant::now(),
        }
    }
}

impl QueryTimeLimiter {
    /// The time until the flow's next query may start; zero within its budget.
    pub(super) fn wait(&self, flow: &Flow, now: Instant) -> Duration {
        if flow.level == PriorityLevel::ClusterWide {
            return Duration::ZERO;
        }
        let now = now.saturating_duration_since(self.began);
        self.used.lock().wait(&*flow.namespace, now)
    }

    /// Charges the flow from now on until the result is dropped.
    pub(super) fn start<'a>(&'a self, flow: &'a Flow) -> Charge<'a> {
        Charge {
            budget: self,
            flow,
            started: Instant::now(),
        }
    }

    pub(super) fn charge(&self, flow: &Flow, took: Duration, now: Instant) {
        if flow.level == PriorityLevel::Namespaced {
            let now = now.saturating_duration_since(self.began);
            let namespace = Arc::clone(&flow.namespace);
            self.used.lock().charge(namespace, took, now);
        }
    }
}

/// A query under way, charged for its time when dropped.
#[derive(Debug)]
pub(super) struct Charge<'a> {
    budget: &'a QueryTimeLimiter,
    flow: &'a Flow,
    started: Instant,
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        self.budget.charge(self.flow, now - self.started, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespaced(namespace: &str) -> Flow {
        Flow {
            level: PriorityLevel::Namespaced,
            namespace: namespace.into(),
        }
    }

    #[test]
    fn a_namespace_waits_until_its_debt_is_paid_and_others_do_not() {
        let (budget, start) = (QueryTimeLimiter::default(), Instant::now());
        let (slow, quick) = (namespaced("slow"), namespaced("quick"));
        for _ in 0..4 {
            assert_eq!(budget.wait(&slow, start), Duration::ZERO);
        }
        for _ in 0..4 {
            budget.charge(&slow, Duration::from_millis(1500), start);
        }
        assert_eq!(budget.wait(&slow, start), Duration::from_secs(40));
        assert_eq!(budget.wait(&quick, start), Duration::ZERO);
        let later = start + Duration::from_secs(30);
        assert_eq!(budget.wait(&slow, later), Duration::from_secs(10));
        let paid = start + Duration::from_secs(40);
        assert_eq!(budget.wait(&slow, paid), Duration::ZERO);
    }

    #[test]
    fn quick_queries_never_wait() {
        let (budget, start) = (QueryTimeLimiter::default(), Instant::now());
        let quick = namespaced("quick");
        for number in 0..10_000 {
            let now = start + number * Duration::from_millis(100);
            assert_eq!(budget.wait(&quick, now), Duration::ZERO);
            budget.charge(&quick, Duration::from_millis(10), now);
        }
    }

    #[test]
    fn callers_of_the_whole_cluster_are_not_limited() {
        let (budget, start) = (QueryTimeLimiter::default(), Instant::now());
        let tenant = namespaced("slow");
        let autoscaler = Flow {
            level: PriorityLevel::ClusterWide,
            ..tenant.clone()
        };
        budget.charge(&autoscaler, Duration::from_mins(1), start);
        assert_eq!(budget.wait(&autoscaler, start), Duration::ZERO);
        assert_eq!(budget.wait(&tenant, start), Duration::ZERO);
    }

    #[test]
    fn a_cancelled_query_is_charged() {
        let budget = QueryTimeLimiter::default();
        let slow = namespaced("slow");
        let mut charge = budget.start(&slow);
        charge.started = charge
            .started
            .checked_sub(Duration::from_secs(3))
            .expect("the machine has run for longer");
        drop(charge);
        assert!(budget.wait(&slow, Instant::now()) > Duration::from_secs(15));
    }
}

//! Fair shares of the adapter's limits, so that questions about one namespace never delay those
//! about another, nor those of the HPA controller.
//!
//! The terms are those of API Priority and Fairness: a request has a priority level, and within it
//! belongs to a flow, here its namespace. Each level has half of a limit for itself, and a flow of
//! the namespaced level at most an eighth.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use futures::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::unconstrained;

/// The number of remembered namespaces above which those without requests are forgotten.
const MANY_NAMESPACES: usize = 1024;

/// The share of each limit that a caller draws on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PriorityLevel {
    /// Callers admitted for one namespace only, such as tenants.
    #[default]
    Namespaced,
    /// Callers that may read all metrics of the cluster, such as the HPA controller.
    ClusterWide,
}

/// The requests at one priority level about one namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Flow {
    pub level: PriorityLevel,
    /// The namespace of the request; empty for the cluster scope.
    pub namespace: Arc<str>,
}

/// Limits concurrent work, fairly between flows.
#[derive(Debug)]
pub struct FlowLimiter {
    cluster_wide: Arc<Semaphore>,
    namespaced: Arc<Semaphore>,
    per_namespace: usize,
    namespaces: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>,
}

/// A place in a [`FlowLimiter`], free again when dropped.
#[derive(Debug)]
pub struct Permit {
    _level: OwnedSemaphorePermit,
    _namespace: Option<OwnedSemaphorePermit>,
}

impl FlowLimiter {
    /// A limiter with `limit` places, at least 8: half for each level.
    pub fn new(limit: usize) -> Self {
        Self {
            cluster_wide: Arc::new(Semaphore::new(limit / 2)),
            namespaced: Arc::new(Semaphore::new(limit / 2)),
            per_namespace: limit / 8,
            namespaces: Mutex::default(),
        }
    }

    pub fn try_acquire(&self, flow: &Flow) -> Option<Permit> {
        unconstrained(self.acquire(flow)).now_or_never().flatten()
    }

    /// A place, when the flow has one. A namespace waits for its own places first, so that at most
    /// an eighth of those who wait for the level belong to it.
    pub async fn acquire(&self, flow: &Flow) -> Option<Permit> {
        let namespace = match self.namespace(flow) {
            Some(limit) => Some(limit.acquire_owned().await.ok()?),
            None => None,
        };
        let level = Arc::clone(self.level(flow)).acquire_owned().await.ok()?;
        Some(Permit {
            _level: level,
            _namespace: namespace,
        })
    }

    fn level(&self, flow: &Flow) -> &Arc<Semaphore> {
        match flow.level {
            PriorityLevel::ClusterWide => &self.cluster_wide,
            PriorityLevel::Namespaced => &self.namespaced,
        }
    }

    /// The places of a flow's namespace, which live as long as one of them is taken or awaited.
    fn namespace(&self, flow: &Flow) -> Option<Arc<Semaphore>> {
        if flow.level == PriorityLevel::ClusterWide {
            return None;
        }
        let mut namespaces = self.namespaces.lock();
        if let Some(limit) = namespaces.get(&flow.namespace).and_then(Weak::upgrade) {
            return Some(limit);
        }
        if namespaces.len() >= MANY_NAMESPACES {
            namespaces.retain(|_, limit| limit.strong_count() > 0);
        }
        let limit = Arc::new(Semaphore::new(self.per_namespace));
        namespaces.insert(Arc::clone(&flow.namespace), Arc::downgrade(&limit));
        Some(limit)
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

    fn take_all(limiter: &FlowLimiter, flow: &Flow) -> Vec<Permit> {
        std::iter::from_fn(|| limiter.try_acquire(flow)).collect()
    }

    #[test]
    fn a_namespace_has_an_eighth_and_leaves_the_rest_to_others() {
        let limiter = FlowLimiter::new(64);
        let hostile = take_all(&limiter, &namespaced("hostile"));
        assert_eq!(hostile.len(), 8);
        assert!(limiter.try_acquire(&namespaced("shop")).is_some());
        let many: Vec<_> = (0..100)
            .flat_map(|number| take_all(&limiter, &namespaced(&format!("hostile-{number}"))))
            .collect();
        assert_eq!(hostile.len() + many.len(), 32);
        let cluster_wide = Flow {
            level: PriorityLevel::ClusterWide,
            ..namespaced("hostile")
        };
        assert_eq!(take_all(&limiter, &cluster_wide).len(), 32);
        drop((hostile, many));
        assert_eq!(take_all(&limiter, &namespaced("shop")).len(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_for_one_namespace_do_not_delay_another() {
        let limiter = Arc::new(FlowLimiter::new(64));
        let held = take_all(&limiter, &namespaced("hostile"));
        let waiting = Arc::clone(&limiter);
        let waiting =
            tokio::spawn(async move { waiting.acquire(&namespaced("hostile")).await.is_some() });
        tokio::task::yield_now().await;
        assert!(limiter.acquire(&namespaced("shop")).await.is_some());
        assert!(!waiting.is_finished());
        drop(held);
        assert!(waiting.await.expect("no panic"));
    }

    #[test]
    fn namespaces_without_requests_are_forgotten() {
        let limiter = FlowLimiter::new(64);
        for number in 0..10 * MANY_NAMESPACES {
            let flow = namespaced(&number.to_string());
            assert!(limiter.try_acquire(&flow).is_some());
        }
        assert!(limiter.namespaces.lock().len() <= MANY_NAMESPACES);
    }
}

//! Resizes that nodes cannot hold, whatever else runs there.

use std::collections::HashMap;
use std::sync::Arc;

use model::Recommendation;
use view::ObjectKey;

use crate::action::{NodeCapacity, ResizeAttempt};

/// The recommendations that were infeasible, by pod UID, and by VPA object and node capacity.
#[derive(Debug, Clone, Default)]
pub(crate) struct InfeasibleResizes {
    by_pod: HashMap<String, Arc<Recommendation>>,
    by_capacity: HashMap<(ObjectKey, NodeCapacity), Arc<Recommendation>>,
}

impl InfeasibleResizes {
    /// Records an infeasible attempt, for its pod only if `uid` is known. Returns whether it is
    /// new.
    pub(super) fn record(
        &mut self,
        vpa: &ObjectKey,
        uid: Option<&str>,
        attempt: &ResizeAttempt,
    ) -> bool {
        let recommendation = &attempt.recommendation;
        let is_known = |known: Option<Arc<Recommendation>>| {
            known.is_some_and(|known| known == *recommendation)
        };
        let mut is_new = false;
        if let Some(uid) = uid {
            let known = self
                .by_pod
                .insert(uid.to_owned(), Arc::clone(recommendation));
            is_new = !is_known(known);
        }
        if let Some(capacity) = attempt.node_capacity {
            let key = (vpa.clone(), capacity);
            let known = self.by_capacity.insert(key, Arc::clone(recommendation));
            is_new |= !is_known(known);
        }
        is_new
    }

    /// Whether a recommendation is infeasible for a pod: no target is lower than in the infeasible
    /// one.
    pub(crate) fn contains_pod(&self, uid: &str, recommendation: &Recommendation) -> bool {
        self.by_pod
            .get(uid)
            .is_some_and(|known| !is_any_lower(recommendation, known))
    }

    /// The same for all pods of a VPA object on nodes of this capacity.
    pub(crate) fn contains_capacity(
        &self,
        vpa: &ObjectKey,
        capacity: NodeCapacity,
        recommendation: &Recommendation,
    ) -> bool {
        self.by_capacity
            .get(&(vpa.clone(), capacity))
            .is_some_and(|known| !is_any_lower(recommendation, known))
    }

    pub(super) fn forget_pod(&mut self, uid: &str) {
        self.by_pod.remove(uid);
    }

    pub(super) fn retain_vpas(&mut self, keep: impl Fn(&ObjectKey) -> bool) {
        self.by_capacity.retain(|(vpa, _), _| keep(vpa));
    }
}

/// Whether any target is lower than it was.
pub(crate) fn is_any_lower(recommendation: &Recommendation, before: &Recommendation) -> bool {
    recommendation.containers.iter().any(|container| {
        let before = before
            .containers
            .iter()
            .find(|before| before.container_name == container.container_name);
        before.is_some_and(|before| {
            let mut targets = container.target.iter();
            targets.any(|(name, target)| {
                before
                    .target
                    .get(name)
                    .is_some_and(|before| target < before)
            })
        })
    })
}

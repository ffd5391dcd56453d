//! Resizes that nodes cannot hold, whatever else runs there.

use std::sync::Arc;

use model::Recommendation;
use view::ObjectKey;

use super::RolloutState;
use crate::action::{NodeCapacity, ResizeAttempt};
use crate::resize::pod_size::container_recommendation;

impl RolloutState {
    /// Records that a pod's node can never hold what is recommended. Returns whether that is new.
    pub(crate) fn record_infeasible(
        &mut self,
        vpa: &ObjectKey,
        uid: &str,
        attempt: &ResizeAttempt,
    ) -> bool {
        let ResizeAttempt {
            recommendation,
            node_capacity,
        } = attempt;
        let known_of_pod = self
            .pods
            .get_mut(uid)
            .map(|pod| pod.infeasible.replace(Arc::clone(recommendation)));
        let known_of_capacity = node_capacity.map(|capacity| {
            let key = (vpa.clone(), capacity);
            self.infeasible.insert(key, Arc::clone(recommendation))
        });
        let mut known = [known_of_pod, known_of_capacity].into_iter().flatten();
        known.any(|known| known.as_ref() != Some(recommendation))
    }

    /// Whether a recommendation is infeasible for a pod: no target is lower than in the infeasible
    /// one.
    pub(crate) fn is_infeasible(&self, uid: &str, recommendation: &Recommendation) -> bool {
        let pod = self.pods.get(uid);
        pod.and_then(|pod| pod.infeasible.as_ref())
            .is_some_and(|known| !is_any_lower(recommendation, known))
    }

    /// The same for all pods of a VPA object on nodes of this capacity.
    pub(crate) fn is_infeasible_on(
        &self,
        vpa: &ObjectKey,
        capacity: NodeCapacity,
        recommendation: &Recommendation,
    ) -> bool {
        self.infeasible
            .get(&(vpa.clone(), capacity))
            .is_some_and(|known| !is_any_lower(recommendation, known))
    }
}

/// Whether any target is lower than it was.
pub(crate) fn is_any_lower(recommendation: &Recommendation, before: &Recommendation) -> bool {
    recommendation.containers.iter().any(|container| {
        let before = container_recommendation(before, &container.container_name);
        before.is_some_and(|before| {
            let mut targets = container.target.iter();
            targets.any(|(name, target)| before.target.get(name).is_some_and(|it| target < it))
        })
    })
}

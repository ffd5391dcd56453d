//! Whether every pod has what is recommended, as far as it can get it.

use super::{ClusterModel, Kind, TruePod};

impl ClusterModel {
    /// Whether a pod can get what is recommended at all. One whose node has no room is evicted.
    fn can_move(&self, pod: &TruePod) -> bool {
        let app = &self.apps[pod.app];
        let budget = app
            .desired_healthy
            .is_none_or(|desired| desired < app.wanted());
        if app.kind == Kind::Deployment {
            return true;
        }
        // Only an eviction helps a pod if the leader that knew of a stopped container died.
        let is_limited = app.is_limited();
        let in_place = app.in_place && !app.restarts && !is_limited && pod.refusal.is_none();
        app.is_sized && app.wanted() >= app.min_replicas && (budget || in_place)
    }

    /// Whether all pods that can have what is recommended.
    pub(in crate::chaos) fn is_content(&self) -> bool {
        let lacks = |pod: &TruePod| {
            let app = &self.apps[pod.app];
            let lacks_memory = app.is_limited() && pod.memory.in_effect() < app.memory.need;
            let lacks = pod.reported != app.target || !pod.serves() || lacks_memory;
            self.can_move(pod) && lacks
        };
        !self.pods.values().any(lacks)
    }

    /// Fails unless [`ClusterModel::is_content`].
    pub(in crate::chaos) fn check_content(&self) {
        if self.is_content() {
            return;
        }
        for (name, pod) in &self.pods {
            let app = &self.apps[pod.app];
            eprintln!(
                "{name} on {} of {}: {} of {} wanted, {} in effect, serves {}, refused {:?}, in place {}, restarts {}, memory {} of {}; budget {:?} of {}, {} allowed",
                pod.node,
                self.sizes[pod.node],
                pod.cpu,
                app.target,
                pod.reported,
                pod.serves(),
                pod.refusal,
                app.in_place,
                app.restarts,
                pod.memory.in_effect(),
                app.memory.need,
                app.desired_healthy,
                app.wanted(),
                app.allowed,
            );
        }
        panic!("nothing moves any more");
    }
}

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
        let in_place = app.in_place && !app.restarts && pod.refusal.is_none();
        app.is_sized && app.wanted() >= app.min_replicas && (budget || in_place)
    }

    /// Whether all pods that can have what is recommended.
    pub(in crate::chaos) fn is_content(&self) -> bool {
        let lacks = |pod: &TruePod| {
            let app = &self.apps[pod.app];
            self.can_move(pod) && (pod.reported != app.target || !pod.serves())
        };
        !self.pods.values().any(lacks)
    }

    /// Fails unless [`ClusterModel::is_content`].
    pub(in crate::chaos) fn check_content(&self) {
        let off: Vec<_> = self
            .pods
            .iter()
            .filter(|(_, pod)| self.apps[pod.app].is_sized)
            .filter(|(_, pod)| pod.cpu != self.apps[pod.app].target)
            .map(|(name, _)| name)
            .collect();
        assert!(self.is_content(), "nothing moves any more: {off:?}");
    }
}

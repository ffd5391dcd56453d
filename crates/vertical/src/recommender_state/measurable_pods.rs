//! The pods that usage is expected of.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use model::Selector;
use view::{ObjectKey, Phase};

use super::{RecommenderState, Target};

impl RecommenderState {
    /// The pods of every object, each with the object's selector. Finished pods use nothing.
    pub fn measurable_pods(&self) -> impl Iterator<Item = (&ObjectKey, &Selector)> {
        let live = self.pods.iter().filter(|(_, pod)| !pod.is_finished());
        live.flat_map(move |(key, _)| {
            self.vpas_of(key)
                .filter_map(move |vpa| match &self.vpas.get(&vpa)?.target {
                    Target::Known { selector, .. } => Some((key, selector)),
                    Target::Unknown => None,
                })
        })
    }

    /// The ready pods that `measured` lacks, by namespace and name, although they have run for longer
    /// than `patience` at `now`.
    pub fn unmeasured_pods(
        &self,
        measured: &HashSet<(&str, &str)>,
        patience: SignedDuration,
        now: Timestamp,
    ) -> Vec<ObjectKey> {
        let is_expected = |pod: &view::Pod| {
            let is_ready = pod.phase == Phase::Running && pod.ready_after_seconds.is_some();
            let started = pod.started_at;
            is_ready && started.is_some_and(|at| now.duration_since(at) > patience)
        };
        let expected = self.pods.iter().filter(|(_, pod)| is_expected(pod));
        expected
            .map(|(key, _)| key)
            .filter(|key| !measured.contains(&(&key.namespace, &key.name)))
            .cloned()
            .collect()
    }
}

//! Backfilled history: replayed into a separate state and merged before the live data.
//!
//! The separate state is fed in order of time and ends where the live data begins. Histories are
//! merged, and running containers continue the open memory window.

use jiff::Timestamp;
use sizing::HistogramConfigs;

use super::ClusterState;
use super::namespace::Namespace;
use super::pod::Pod;

impl ClusterState {
    /// Merges the history of `earlier` before the history here. Samples in both count twice, so
    /// `earlier` must end where this state begins. Pods and VPAs stay those of this state;
    /// both must have the same half-lives.
    pub fn prepend_history(&mut self, earlier: &Self, now: Timestamp) {
        let shapes = self.shapes;
        for (name, earlier) in &earlier.namespaces {
            self.namespace_mut(name)
                .prepend_history(earlier, &shapes, now);
            self.update(name, |_| ());
        }
    }
}

impl Namespace {
    fn prepend_history(&mut self, earlier: &Self, shapes: &HistogramConfigs, now: Timestamp) {
        let mut merged = 0;
        for group in earlier.histories.groups.iter() {
            let id = self.histories.group_of((*group.labels).clone());
            for (container, before) in &group.histories {
                if let Some(history) = self.histories.history(id, container, now) {
                    history.aggregate.merge(shapes, &before.aggregate);
                    merged += 1;
                }
            }
            self.histories.drop_if_idle(id);
        }
        for (name, pod) in &earlier.pods {
            let labels = earlier.labels(pod);
            let known = self.pods.get(name).and_then(|pod| self.labels(pod));
            if labels.is_some() && labels == known {
                self.resume(name, pod, shapes, now);
            }
        }
        self.may_be_idle(merged);
    }

    /// Continues the containers of a pod from their earlier state. If labels changed in between,
    /// the open window belongs to another history.
    fn resume(&mut self, name: &str, earlier: &Pod, shapes: &HistogramConfigs, now: Timestamp) {
        let default_rules = self.histories.default_rules;
        for (container, before) in earlier.containers() {
            if let Some((state, history)) = self.container(name, container, now) {
                let rules = history.rules.as_deref().unwrap_or(&default_rules);
                state.resume(before, &mut history.aggregate, shapes, rules);
            }
        }
    }
}

//! Hourly garbage collection of expired and unused histories, as upstream's.
//!
//! Source: upstream `pkg/recommender/model/cluster.go` (`garbageCollectAggregateCollectionStates`).

use jiff::Timestamp;
use sizing::Instant;

use super::ClusterState;
use super::group::Group;
use super::links::touched;
use super::namespace::Namespace;
use super::pod::Pod;

/// Minimum interval between collections.
const INTERVAL_NS: i64 = 3_600_000_000_000;

impl ClusterState {
    /// Once an hour, drops expired and unused histories, and groups with neither history nor pods.
    /// Returns the number of dropped histories.
    pub fn collect_garbage(&mut self, now: Timestamp) -> usize {
        self.collect(now, true)
    }

    /// Like [`ClusterState::collect_garbage`], but keeps expired histories: for an untrusted clock.
    pub fn collect_unused(&mut self, now: Timestamp) -> usize {
        self.collect(now, false)
    }

    fn collect(&mut self, now: Timestamp, expires: bool) -> usize {
        // After a clock was set back, the last time may be in the future, even by months.
        if (0..INTERVAL_NS).contains(&Instant::from(now).since(self.last_garbage_collection)) {
            return 0;
        }
        self.last_garbage_collection = now.into();
        let dropped = self
            .namespaces
            .values_mut()
            .map(|namespace| namespace.collect_garbage(now, expires))
            .sum();
        self.namespaces.retain(|_, namespace| !namespace.is_empty());
        dropped
    }
}

impl Namespace {
    /// Drops expired and unused histories, then groups with neither history nor pods. Returns the
    /// number of dropped histories.
    ///
    /// An empty history is used while an unfinished pod has the container, or a finished one whose
    /// target exists.
    fn collect_garbage(&mut self, now: Timestamp, expires: bool) -> usize {
        let mut dropped = 0;
        for id in self.groups.ids().collect::<Vec<_>>() {
            let Some(group) = self.groups.get(id) else {
                continue;
            };
            let has_target = self.has_target(group);
            let Some(group) = touched(&mut self.groups, &mut self.selections, id) else {
                continue;
            };
            let pods = group.pods.iter().filter_map(|pod| self.pods.get(pod));
            let pods: Vec<&Pod> = pods.collect();
            let exists = |container: &str| pods.iter().any(|pod| pod.has_container(container));
            let contributes = |container: &str| {
                let counts = |pod: &&Pod| has_target || !pod.phase.is_finished();
                pods.iter()
                    .any(|pod| counts(pod) && pod.has_container(container))
            };
            dropped +=
                group.collect_garbage(&self.default_rules, now, expires, exists, contributes);
            self.drop_if_idle(id);
        }
        if !expires {
            return dropped;
        }
        let vpas = self.vpas.values_mut();
        for histories in vpas.filter_map(|vpa| vpa.own.as_deref_mut()) {
            histories.collect_garbage(now.into());
        }
        dropped
    }

    /// Whether any VPA of the group has a target.
    fn has_target(&self, group: &Group) -> bool {
        self.vpas_of_group(group).any(|vpa| vpa.spec.target_exists)
    }
}

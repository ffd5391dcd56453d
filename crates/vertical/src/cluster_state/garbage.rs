//! Hourly garbage collection of expired and unused histories, as upstream's.
//!
//! Source: upstream `pkg/recommender/model/cluster.go` (`garbageCollectAggregateCollectionStates`).

use jiff::Timestamp;
use sizing::Instant;

use super::ClusterState;
use super::group::History;
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
    fn collect_garbage(&mut self, now: Timestamp, expires: bool) -> usize {
        let mut dropped = 0;
        for id in self.histories.groups.ids().collect::<Vec<_>>() {
            dropped += self.collect_group(id, now, expires);
            self.histories.drop_if_idle(id);
        }
        if !expires {
            return dropped;
        }
        let vpas = self.histories.vpas.values_mut();
        for histories in vpas.filter_map(|vpa| vpa.own.as_deref_mut()) {
            histories.collect_garbage(now.into());
        }
        dropped
    }

    /// Drops expired histories, and empty ones without a live container. Returns the number of
    /// histories dropped or emptied.
    ///
    /// An empty history is used while an unfinished pod has the container, or a finished one whose
    /// target exists.
    fn collect_group(&mut self, id: u32, now: Timestamp, expires: bool) -> usize {
        let histories = &self.histories;
        let has_target = histories.groups.get(id).is_some_and(|group| {
            let vpas = histories.names_of(group);
            let mut vpas = vpas.filter_map(|name| histories.vpas.get(name));
            vpas.any(|vpa| vpa.spec.target_exists)
        });
        let default_rules = histories.default_rules;
        let Some(group) = self.histories.touched(id) else {
            return 0;
        };
        let pods = group.pods.iter().filter_map(|pod| self.pods.get(pod));
        let pods: Vec<&Pod> = pods.collect();
        let mut dropped = 0;
        group.histories.retain_mut(|(container, history)| {
            let mut having = pods.iter().filter(|pod| pod.has_container(container));
            let is_used = |pod: &&Pod| has_target || !pod.phase.is_finished();
            let useless = history.aggregate.samples() == 0 && !having.clone().any(is_used);
            let rules = history.rules.as_deref().unwrap_or(&default_rules);
            let is_old = expires && history.is_expired(rules.retention_ns(), now.into());
            if !useless && !is_old {
                return true;
            }
            dropped += 1;
            *history = History::new(now, history.rules.take());
            !useless && having.next().is_some()
        });
        dropped
    }
}

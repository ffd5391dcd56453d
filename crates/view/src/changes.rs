//! Difference of the view between two passes, by object.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::limits::DisruptionBudget;
use crate::limits::LimitRange;
use crate::limits::Quota;
use crate::node::Node;
use crate::pod::Pod;
use crate::scale::ReadScale;
use crate::table::{Change, Entry};
use crate::view::{Namespace, View};
use crate::vpa::Vpa;
use crate::workload_controller::{Controller, WellKnown};

/// Finds changes in a table: the objects of one kind at the last call, in the order of their keys.
#[derive(Debug, Clone)]
pub struct ChangeTracker<T>(Vec<Arc<T>>);

impl<T> Default for ChangeTracker<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Entry> ChangeTracker<T> {
    /// The changes since the last call. `now` must be in the order of its keys. An object that stays
    /// costs one comparison of pointers.
    pub fn changes<'a>(&mut self, now: impl Iterator<Item = &'a Arc<T>>) -> Vec<Change<T>>
    where
        T: 'a,
    {
        let deleted = |old| Change {
            old: Some(old),
            new: None,
        };
        let mut changes = Vec::new();
        let before = std::mem::take(&mut self.0);
        self.0.reserve(before.len());
        let mut before = before.into_iter().peekable();
        for new in now {
            while let Some(old) =
                before.next_if(|old| !Arc::ptr_eq(old, new) && old.key() < new.key())
            {
                changes.push(deleted(old));
            }
            self.0.push(Arc::clone(new));
            let old = before.next_if(|old| Arc::ptr_eq(old, new) || old.key() == new.key());
            if !old.as_ref().is_some_and(|old| Arc::ptr_eq(old, new)) {
                let new = Some(Arc::clone(new));
                changes.push(Change { old, new });
            }
        }
        changes.extend(before.map(deleted));
        changes
    }
}

/// Finds changes in the tables that [`crate::Matched`] follows, and in those of limits.
#[derive(Debug, Clone, Default)]
pub struct ClusterChangeTracker {
    pods: ChangeTracker<Pod>,
    vpas: ChangeTracker<Vpa>,
    controllers: BTreeMap<WellKnown, ChangeTracker<Controller>>,
    scales: ChangeTracker<ReadScale>,
    limit_ranges: ChangeTracker<LimitRange>,
    quotas: ChangeTracker<Quota>,
    budgets: ChangeTracker<DisruptionBudget>,
    namespaces: ChangeTracker<Namespace>,
    nodes: ChangeTracker<Node>,
}

#[derive(Debug)]
pub struct ClusterChanges {
    pub pods: Vec<Change<Pod>>,
    pub vpas: Vec<Change<Vpa>>,
    pub controllers: Vec<(WellKnown, Change<Controller>)>,
    pub scales: Vec<Change<ReadScale>>,
    pub limit_ranges: Vec<Change<LimitRange>>,
    pub quotas: Vec<Change<Quota>>,
    pub budgets: Vec<Change<DisruptionBudget>>,
    pub namespaces: Vec<Change<Namespace>>,
    pub nodes: Vec<Change<Node>>,
}

impl ClusterChangeTracker {
    /// The changes since the last call.
    pub fn changes(&mut self, view: &View) -> ClusterChanges {
        let mut controllers = Vec::new();
        for kind in WellKnown::ALL {
            let tracker = self.controllers.entry(kind).or_default();
            let changes = tracker.changes(view.controllers(kind)).into_iter();
            controllers.extend(changes.map(|change| (kind, change)));
        }
        ClusterChanges {
            pods: self.pods.changes(view.pods.iter()),
            vpas: self.vpas.changes(view.vpas.iter()),
            controllers,
            scales: self.scales.changes(view.scales.iter()),
            limit_ranges: self.limit_ranges.changes(view.limit_ranges.iter()),
            quotas: self.quotas.changes(view.quotas.iter()),
            budgets: self.budgets.changes(view.disruption_budgets.iter()),
            namespaces: self.namespaces.changes(view.namespaces.iter()),
            nodes: self.nodes.changes(view.nodes.iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, PartialEq)]
    struct Thing(u8, u8);

    impl Entry for Thing {
        type Key = u8;
        fn key(&self) -> &u8 {
            &self.0
        }
    }

    proptest! {
        #[test]
        fn every_difference_is_found(
            contents in proptest::collection::vec(proptest::collection::btree_map(0u8..8, 0u8..3, 0..8), 1..6),
        ) {
            let (mut table, mut seen) = (crate::Table::default(), ChangeTracker::default());
            let mut replay = BTreeMap::new();
            for content in contents {
                table.reset(content.iter().map(|(key, value)| Arc::new(Thing(*key, *value))).collect());
                for Change { old, new } in seen.changes(table.iter()) {
                    prop_assert_ne!(old.as_ref().map(|old| old.1), new.as_ref().map(|new| new.1));
                    if let Some(old) = old {
                        prop_assert_eq!(replay.remove(&old.0), Some(old.1));
                    }
                    replay.extend(new.map(|new| (new.0, new.1)));
                }
                prop_assert_eq!(&replay, &content);
                prop_assert!(seen.changes(table.iter()).is_empty());
            }
        }
    }
}

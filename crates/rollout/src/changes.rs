//! Difference of the view between two passes, by object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Recommendation;
use view::{
    Change, Controller, DisruptionBudget, Entry, LimitRange, Namespace, Node, Pod, Quota,
    ReadScale, View, Vpa, WellKnown,
};

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
        let mut changes = Vec::new();
        let before = std::mem::take(&mut self.0);
        self.0.reserve(before.len());
        let mut before = before.into_iter().peekable();
        for new in now {
            while let Some(gone) =
                before.next_if(|old| !Arc::ptr_eq(old, new) && old.key() < new.key())
            {
                changes.push(Change {
                    old: Some(gone),
                    new: None,
                });
            }
            match before.next_if(|old| Arc::ptr_eq(old, new) || old.key() == new.key()) {
                Some(same) if Arc::ptr_eq(&same, new) => self.0.push(same),
                old => {
                    changes.push(Change {
                        old,
                        new: Some(Arc::clone(new)),
                    });
                    self.0.push(Arc::clone(new));
                }
            }
        }
        changes.extend(before.map(|gone| Change {
            old: Some(gone),
            new: None,
        }));
        changes
    }
}

/// Finds changes in all tables that decisions are made from.
#[derive(Debug, Clone, Default)]
pub(super) struct ClusterChangeTracker {
    pods: ChangeTracker<Pod>,
    vpas: ChangeTracker<Vpa>,
    controllers: BTreeMap<WellKnown, ChangeTracker<Controller>>,
    scales: ChangeTracker<ReadScale>,
    limit_ranges: ChangeTracker<LimitRange>,
    quotas: ChangeTracker<Quota>,
    budgets: ChangeTracker<DisruptionBudget>,
    namespaces: ChangeTracker<Namespace>,
    nodes: ChangeTracker<Node>,
    recommendations: BTreeMap<String, Arc<Recommendation>>,
}

/// The changes between two passes.
#[derive(Debug)]
pub(super) struct ClusterChanges {
    pub(super) pods: Vec<Change<Pod>>,
    pub(super) vpas: Vec<Change<Vpa>>,
    pub(super) controllers: Vec<(WellKnown, Change<Controller>)>,
    pub(super) scales: Vec<Change<ReadScale>>,
    pub(super) limit_ranges: Vec<Change<LimitRange>>,
    pub(super) quotas: Vec<Change<Quota>>,
    pub(super) budgets: Vec<Change<DisruptionBudget>>,
    pub(super) namespaces: Vec<Change<Namespace>>,
    pub(super) nodes: Vec<Change<Node>>,
    /// Unique identifiers of the VPA objects whose recommendation in the feed was added, changed or
    /// removed.
    pub(super) recommendations: BTreeSet<String>,
}

impl ClusterChangeTracker {
    /// The changes since the last call.
    pub(super) fn changes(
        &mut self,
        view: &View,
        recommendations: &BTreeMap<String, Arc<Recommendation>>,
    ) -> ClusterChanges {
        let mut controllers = Vec::new();
        for kind in WellKnown::ALL {
            let seen = self.controllers.entry(kind).or_default();
            controllers.extend(
                seen.changes(view.controllers(kind))
                    .into_iter()
                    .map(|change| (kind, change)),
            );
        }
        ClusterChanges {
            pods: self.pods.changes(view.pods.iter()),
            vpas: self.vpas.changes(view.vpas.iter()),
            controllers,
            scales: self.scales.changes(view.scales()),
            limit_ranges: self.limit_ranges.changes(view.limit_ranges.iter()),
            quotas: self.quotas.changes(view.quotas.iter()),
            budgets: self.budgets.changes(view.disruption_budgets.iter()),
            namespaces: self.namespaces.changes(view.namespaces.iter()),
            nodes: self.nodes.changes(view.nodes.iter()),
            recommendations: self.recommendations(recommendations),
        }
    }

    fn recommendations(&mut self, now: &BTreeMap<String, Arc<Recommendation>>) -> BTreeSet<String> {
        let is_same = self.recommendations.len() == now.len()
            && self
                .recommendations
                .iter()
                .zip(now)
                .all(|(old, new)| old.0 == new.0 && Arc::ptr_eq(old.1, new.1));
        if is_same {
            return BTreeSet::new();
        }
        let before = std::mem::replace(&mut self.recommendations, now.clone());
        let differs = |uid: &&String| match (before.get(*uid), now.get(*uid)) {
            (Some(old), Some(new)) => !Arc::ptr_eq(old, new),
            _ => true,
        };
        before
            .keys()
            .chain(now.keys())
            .filter(differs)
            .cloned()
            .collect()
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
            let (mut table, mut seen) = (view::Table::default(), ChangeTracker::default());
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

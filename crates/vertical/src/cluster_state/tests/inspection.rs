//! Parts of a cluster state that tests compare.

use std::collections::BTreeMap;
use std::sync::Arc;

use sizing::{ContainerHistory, Estimate, HistogramConfigs};
use view::ObjectKey;

use super::super::MatchedVpa;
use crate::ClusterState;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterStateSize {
    pub(crate) pods: usize,
    /// Distinct label sets of pods or histories.
    pub(crate) label_sets: usize,
    /// Histories: one per container name and label set.
    pub(crate) histories: usize,
    pub(crate) vpas: usize,
    /// Entries of the indices between selectors and labels.
    pub(crate) index_entries: usize,
}

impl ClusterState {
    /// The objects of the pods that a VPA selects.
    pub(crate) fn pods_of(&self, id: &ObjectKey) -> impl Iterator<Item = &Arc<view::Pod>> {
        let pods = self.vpa(id).into_iter().flat_map(MatchedVpa::pods);
        pods.filter_map(|pod| pod.object.as_ref())
    }

    pub(crate) fn shapes(&self) -> &HistogramConfigs {
        &self.shapes
    }

    /// Target and bounds of every container before rounding and policies.
    pub(crate) fn estimates(&self, id: &ObjectKey) -> Option<BTreeMap<String, Estimate>> {
        let matched = self.vpa(id)?;
        let histories = matched.merged();
        let estimates = self.estimates_from(matched.vpa, &histories);
        Some(
            estimates
                .map(|(name, estimate)| (name.to_owned(), estimate))
                .collect(),
        )
    }

    /// The merged history of every container, including checkpoints.
    pub(crate) fn histories(&self, id: &ObjectKey) -> Option<BTreeMap<String, ContainerHistory>> {
        let histories = self.vpa(id)?.merged().into_iter();
        let owned = histories.map(|(name, history)| (name.to_owned(), history.into_owned()));
        Some(owned.collect())
    }

    pub(crate) fn has_per_vpa_policy(&self, id: &ObjectKey) -> bool {
        self.vpa(id)
            .is_some_and(|matched| matched.vpa.own.is_some())
    }

    pub(crate) fn size(&self) -> ClusterStateSize {
        let mut size = ClusterStateSize {
            histories: self.history_count(),
            ..ClusterStateSize::default()
        };
        for namespace in self.namespaces.values() {
            size.pods += namespace.pods.len();
            size.label_sets += namespace.histories.groups.len();
            size.vpas += namespace.histories.vpas.len();
            size.index_entries += namespace.histories.selector_index.len();
        }
        size
    }

    /// Allocated slots for pods, label sets and VPAs, used or free. Free ones are reused.
    pub(crate) fn slots(&self) -> usize {
        let namespaces = self.namespaces.values();
        let slots = namespaces.map(|namespace| {
            let histories = &namespace.histories;
            let slots = histories.groups.slots.len() + histories.selections.slots.len();
            namespace.pods.len() + histories.vpas.len() + slots
        });
        slots.sum()
    }
}

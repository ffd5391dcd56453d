//! Groups of pods of one namespace with the same labels, and selectors with the groups that they match.
//!
//! Autoscalers select by labels alone, so they are linked to groups, not to pods. A group exists as
//! long as it has pods or history. VPAs with equal selectors share links and merged histories: with
//! links of each VPA, a namespace of many VPAs for one workload would have a link, and a merge in each
//! decision, per VPA and group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use model::{Labels, Selector};
use sizing::{ContainerHistory, HistogramConfigs, Instant, MemoryRules};

use super::slab::Slab;
use crate::refresh::PodRequests;

pub(super) type ByContainer = BTreeMap<Box<str>, ContainerHistory>;

#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) labels: Arc<Labels>,
    /// Names of the existing pods.
    pub(super) pods: Vec<Arc<str>>,
    /// Ids of the selections that match these labels.
    pub(super) selections: Vec<u32>,
    /// Histories by container name; pods have few containers.
    pub(super) histories: Vec<(Box<str>, History)>,
}

/// The history of the containers of one name in one group.
#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) aggregate: ContainerHistory,
    created: Instant,
    /// Rules of a VPA for this container, if any.
    pub(super) rules: Option<Box<MemoryRules>>,
}

impl History {
    /// An empty history with these rules.
    pub(super) fn new(created: Timestamp, rules: Option<Box<MemoryRules>>) -> Self {
        Self {
            aggregate: ContainerHistory::default(),
            created: created.into(),
            rules,
        }
    }

    /// Whether it is expired. Age counts from the last CPU sample, or from its creation without
    /// one.
    pub(super) fn is_expired(&self, retention_ns: i64, now: Instant) -> bool {
        let last = if self.aggregate.samples() == 0 {
            self.created
        } else {
            self.aggregate.last_sample
        };
        now.since(last) >= retention_ns
    }
}

impl Group {
    /// Whether it has no references and no history.
    pub(super) fn is_idle(&self) -> bool {
        self.pods.is_empty() && self.histories.is_empty()
    }

    /// The place of a container's history.
    pub(super) fn position(&self, container: &str) -> Option<usize> {
        let mut histories = self.histories.iter();
        histories.position(|(name, _)| **name == *container)
    }
}

/// Selector of one or more VPAs of a namespace.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) selector: Arc<Selector>,
    /// Names of its VPAs, in the order in which they were linked.
    pub(super) vpas: BTreeMap<u64, Arc<str>>,
    /// Ids of the groups of pods that it matches.
    pub(super) groups: BTreeSet<u32>,
    /// Number of the pods of these groups.
    pub(super) pods: usize,
    /// History of deleted pods, merged by container name.
    pub(super) retired: ByContainer,
    /// History of all groups and of deleted pods, merged when several VPAs need it.
    merged: OnceLock<ByContainer>,
    /// Requests of the pods of these groups, collected when a VPA needs them.
    pub(super) requests: OnceLock<PodRequests>,
}

impl Selection {
    pub(super) fn new(selector: Arc<Selector>) -> Self {
        Self {
            selector,
            vpas: BTreeMap::new(),
            groups: BTreeSet::new(),
            pods: 0,
            retired: ByContainer::new(),
            merged: OnceLock::new(),
            requests: OnceLock::new(),
        }
    }

    /// Drops what was merged, after a change of a group, of its pods or of its histories.
    pub(super) fn changed(&mut self) {
        self.merged.take();
        self.requests.take();
    }

    pub(super) fn groups_in<'a>(
        &'a self,
        groups: &'a Slab<Group>,
    ) -> impl Iterator<Item = &'a Group> {
        let ids = self.groups.iter();
        ids.filter_map(|id| groups.get(*id))
    }

    /// The histories of the pods: one per container name if several VPAs share them, else one per
    /// container name and group.
    pub(super) fn histories<'a>(
        &'a self,
        groups: &'a Slab<Group>,
        shapes: &HistogramConfigs,
    ) -> impl Iterator<Item = (&'a str, &'a ContainerHistory)> {
        let merged = (self.vpas.len() > 1).then(|| {
            self.merged.get_or_init(|| {
                let mut merged = ByContainer::new();
                for (name, history) in self.unmerged(groups) {
                    let entry = merged.entry(name.into()).or_default();
                    entry.merge(shapes, history);
                }
                merged
            })
        });
        let own = merged.is_none().then(|| self.unmerged(groups));
        let merged = merged.into_iter().flatten();
        let merged = merged.map(|(name, history)| (&**name, history));
        merged.chain(own.into_iter().flatten())
    }

    fn unmerged<'a>(
        &'a self,
        groups: &'a Slab<Group>,
    ) -> impl Iterator<Item = (&'a str, &'a ContainerHistory)> {
        let groups = self.groups_in(groups);
        let live = groups.flat_map(|group| &group.histories);
        let live = live.map(|(name, history)| (&**name, &history.aggregate));
        let retired = self.retired.iter();
        live.chain(retired.map(|(name, history)| (&**name, history)))
    }
}

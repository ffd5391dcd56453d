//! Group of pods of one namespace with the same labels, and the history of their containers.
//!
//! Autoscalers select by labels alone, so they are linked to groups, not to pods. A group exists as
//! long as it has pods or history.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use model::Labels;
use sizing::{ContainerHistory, Instant, MemoryRules};

/// Histories by container name.
pub(super) type ByContainer = BTreeMap<Box<str>, ContainerHistory>;

/// Pods with the same labels.
#[derive(Clone, Debug)]
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
            self.aggregate.last_sample()
        };
        now.since(last) >= retention_ns
    }
}

impl Group {
    pub(super) fn new(labels: Arc<Labels>) -> Self {
        Self {
            labels,
            pods: Vec::new(),
            selections: Vec::new(),
            histories: Vec::new(),
        }
    }

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

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
    fn new(created: Timestamp) -> Self {
        Self {
            aggregate: ContainerHistory::default(),
            created: created.into(),
            rules: None,
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

    /// The history of a container; created with the rules of the linked VPAs if missing.
    pub(super) fn history(
        &mut self,
        container: &str,
        now: Timestamp,
        rules: impl FnOnce(&[u32]) -> Option<Box<MemoryRules>>,
    ) -> &mut History {
        let found = self
            .histories
            .iter()
            .position(|(name, _)| **name == *container);
        let index = found.unwrap_or_else(|| {
            self.histories.reserve_exact(1);
            self.histories.push((
                container.into(),
                History {
                    rules: rules(&self.selections),
                    ..History::new(now)
                },
            ));
            self.histories.len() - 1
        });
        &mut self.histories[index].1
    }

    /// Drops expired histories, and empty ones without a live container. Returns the number of
    /// histories dropped or emptied.
    pub(super) fn collect_garbage(
        &mut self,
        default_rules: &MemoryRules,
        now: Timestamp,
        expires: bool,
        exists: impl Fn(&str) -> bool,
        contributes: impl Fn(&str) -> bool,
    ) -> usize {
        let mut dropped = 0;
        self.histories.retain_mut(|(container, history)| {
            let retention = history
                .rules
                .as_deref()
                .unwrap_or(default_rules)
                .retention_ns();
            let useless = history.aggregate.samples() == 0 && !contributes(container);
            let is_old = expires && history.is_expired(retention, now.into());
            if !useless && !is_old {
                return true;
            }
            dropped += 1;
            let rules = history.rules.take();
            *history = History {
                rules,
                ..History::new(now)
            };
            !useless && exists(container)
        });
        dropped
    }
}

//! An autoscaler as far as sizing cares: which pods it selects, what its policies say, and the
//! history that was stored for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Selector;

use super::label_index::Entry;
use super::policy_history::PolicyHistories;
use crate::aggregate::Aggregate;
use crate::policy::ContainerPolicy;
use crate::sizing_policy::SizingPolicy;

/// Which autoscaler is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AutoscalerId {
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

/// An autoscaler as it is told to the fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoscalerSpec {
    /// The pods of the target. Use [`Selector::nothing`] until it is known.
    pub selector: Selector,
    /// What its owner decided about single containers.
    pub policies: Vec<ContainerPolicy>,
    /// The containers that get whole cores; see [`crate::integer_cpu_containers`].
    pub integer_cpu: BTreeSet<String>,
    /// Whether its target exists: then finished pods keep empty histories alive.
    pub target_exists: bool,
    /// How its containers are sized, unless by the VPA's policy.
    pub sizing: Option<Arc<SizingPolicy>>,
}

impl Default for AutoscalerSpec {
    fn default() -> Self {
        Self {
            selector: Selector::nothing(),
            policies: Vec::new(),
            integer_cpu: BTreeSet::new(),
            target_exists: true,
            sizing: None,
        }
    }
}

/// An autoscaler as the fleet keeps it.
#[derive(Clone, Debug)]
pub(super) struct Autoscaler {
    /// Unique within its namespace.
    pub(super) name: Box<str>,
    pub(super) spec: AutoscalerSpec,
    /// When it changed last, in changes of the namespace.
    pub(super) changed: u64,
    /// Where its selector is in the index.
    pub(super) entry: Entry,
    /// The groups of pods that it selects.
    pub(super) groups: BTreeSet<u32>,
    /// History that was stored for it, by container name.
    pub(super) stored: BTreeMap<Box<str>, Aggregate>,
    /// History of pods that are gone, measured here and merged by container name.
    pub(super) retired: BTreeMap<Box<str>, Aggregate>,
    /// What a policy of its own remembers; none where it has none.
    pub(super) own: Option<Box<PolicyHistories>>,
}

impl Default for Autoscaler {
    fn default() -> Self {
        Self {
            name: Box::default(),
            spec: AutoscalerSpec::default(),
            changed: 0,
            entry: Entry::Nowhere,
            groups: BTreeSet::new(),
            stored: BTreeMap::new(),
            retired: BTreeMap::new(),
            own: None,
        }
    }
}

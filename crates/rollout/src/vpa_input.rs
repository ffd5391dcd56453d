//! The input of the decision about one VPA object.

use std::collections::BTreeMap;
use std::time::Duration;

use view::{Matched, VpaPods};

use super::disruption_limit::{GroupSize, OwnerName};

/// A VPA object to decide about.
pub(super) struct VpaInput<'a> {
    /// The VPA object with its pods.
    pub(super) vpa_pods: &'a VpaPods,
    /// The sizes of its groups, by owner. The pods of a group without one are not updated.
    pub(super) group_sizes: BTreeMap<OwnerName<'a>, GroupSize>,
    /// Unique identifiers of the owners.
    pub(super) owners: Vec<String>,
    /// The time after which one of its groups has settled.
    pub(super) settles_in: Option<Duration>,
    /// Whether time alone may change the decision at any moment.
    pub(super) is_time_dependent: bool,
}

impl<'a> VpaInput<'a> {
    /// An input without groups and owners, see `GroupSizes::update`.
    pub(super) fn new(vpa_pods: &'a VpaPods, matched: &Matched) -> Self {
        let pods = vpa_pods.pods.values();
        let mut covering = pods.flat_map(|pod| matched.budgets_of(&pod.key));
        Self {
            vpa_pods,
            group_sizes: BTreeMap::new(),
            owners: Vec::new(),
            settles_in: None,
            // The status of such a budget says until when evictions count.
            is_time_dependent: covering.any(|found| !found.budget.disrupted.is_empty()),
        }
    }
}

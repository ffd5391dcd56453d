//! The settling time after a change of a VPA object, or of the constraints of its namespace.
//!
//! The objects of one manifest arrive one after the other, in any order. An eviction between a VPA
//! object and its `LimitRange` or `PodDisruptionBudget` would be useless, or violate the budget. So
//! updates wait until nothing has changed for the settling time. Consecutive changes delay them by
//! at most [`MAX_EXTENSION`] times as much.

use std::collections::HashMap;
use std::time::Duration;

use view::{
    ClusterChanges, LimitRange, ObjectKey, Quota, View, changed_keys, same_budget, same_selection,
};

use crate::clock::ClockReading;

/// The longest delay by consecutive changes, in settling times.
const MAX_EXTENSION: u32 = 6;

/// The VPA objects that changed within the settling time, and the namespaces, as objects without a name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settling {
    has_observed: bool,
    changed: HashMap<ObjectKey, SettlingPeriod>,
}

/// Consecutive changes, by the monotonic clock.
#[derive(Debug, Clone, Copy)]
struct SettlingPeriod {
    settled_at: Duration,
    /// The end, whatever changes.
    ends_at: Duration,
}

impl Settling {
    /// Records changes since the last call. At the first call the age of a VPA object decides, so
    /// that a restart delays only new ones.
    pub(crate) fn observe(
        &mut self,
        view: &View,
        changes: &ClusterChanges,
        settling: Duration,
        now: ClockReading,
    ) {
        if settling.is_zero() || !view.is_synced() {
            return;
        }
        self.changed.retain(|_, it| it.settled_at > now.monotonic);
        let mut record = |key: ObjectKey, left: Duration| {
            let period = self.changed.entry(key).or_insert(SettlingPeriod {
                settled_at: now.monotonic,
                ends_at: now
                    .monotonic
                    .saturating_add(settling.saturating_mul(MAX_EXTENSION)),
            });
            period.settled_at = now.monotonic.saturating_add(left);
        };
        if !std::mem::replace(&mut self.has_observed, true) {
            for vpa in view.vpas.iter() {
                let created_at = vpa.created_at();
                if let Some(left) = created_at.and_then(|at| settling.checked_sub(now.since(at))) {
                    record(vpa.key.clone(), left);
                }
            }
            return;
        }
        for key in changed_keys(&changes.vpas, same_selection) {
            record(key.clone(), settling);
        }
        // The status of a budget changes with each of its pods.
        for key in changed_keys(&changes.limit_ranges, LimitRange::eq)
            .chain(changed_keys(&changes.quotas, Quota::eq))
            .chain(changed_keys(&changes.budgets, same_budget))
        {
            record(ObjectKey::new(&key.namespace, ""), settling);
        }
    }

    /// The rest of the settling time for the pods of a VPA object.
    pub(crate) fn time_left(&self, vpa: &ObjectKey, now: ClockReading) -> Option<Duration> {
        let namespace = ObjectKey::new(&vpa.namespace, "");
        let changes = [vpa, &namespace]
            .into_iter()
            .filter_map(|it| self.changed.get(it));
        changes
            .filter_map(|it| now.left(it.settled_at.min(it.ends_at)))
            .max()
    }
}

//! The settling time after a change of a VPA object, or of the constraints of its namespace.
//!
//! The objects of one manifest arrive one after the other, in any order. An eviction between a VPA
//! object and its `LimitRange` or `PodDisruptionBudget` would be useless, or violate the budget. So
//! updates wait until nothing has changed for the settling time. Consecutive changes delay them by
//! at most [`MAX_EXTENSION`] times as much.

use std::collections::HashMap;
use std::time::Duration;

use view::{
    ClusterChanges, LimitRange, ObjectKey, Quota, View, Vpa, changed_keys, same_budget,
    same_selection,
};

use crate::clock::ClockReading;

/// The longest delay by consecutive changes, in settling times.
const MAX_EXTENSION: u32 = 6;

/// The VPA objects and namespaces that changed within the settling time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settling {
    has_observed: bool,
    changed_vpas: HashMap<ObjectKey, SettlingPeriod>,
    changed_namespaces: HashMap<String, SettlingPeriod>,
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
        let Self {
            changed_vpas,
            changed_namespaces,
            ..
        } = self;
        changed_vpas.retain(|_, changing| changing.settled_at > now.monotonic);
        changed_namespaces.retain(|_, changing| changing.settled_at > now.monotonic);
        if !std::mem::replace(&mut self.has_observed, true) {
            for vpa in view.vpas.iter() {
                let age = age(vpa, now);
                record(changed_vpas, vpa.key.clone(), settling, age, now);
            }
            return;
        }
        for key in changed_keys(&changes.vpas, same_selection) {
            record(changed_vpas, key.clone(), settling, Duration::ZERO, now);
        }
        // The status of a budget changes with each of its pods.
        for key in changed_keys(&changes.limit_ranges, LimitRange::eq)
            .chain(changed_keys(&changes.quotas, Quota::eq))
            .chain(changed_keys(&changes.budgets, same_budget))
        {
            let namespace = key.namespace.clone();
            record(changed_namespaces, namespace, settling, Duration::ZERO, now);
        }
    }

    /// The rest of the settling time for the pods of a VPA object.
    pub(crate) fn time_left(&self, vpa: &ObjectKey, now: ClockReading) -> Option<Duration> {
        let own = self.changed_vpas.get(vpa);
        let namespace = self.changed_namespaces.get(&vpa.namespace);
        let changes = own.into_iter().chain(namespace);
        changes
            .filter_map(|it| now.left(it.settled_at.min(it.ends_at)))
            .max()
    }
}

/// The age of a VPA object; the maximum without a creation time.
fn age(vpa: &Vpa, now: ClockReading) -> Duration {
    vpa.created_at()
        .map_or(Duration::MAX, |created| now.since(created))
}

fn record<K: std::hash::Hash + Eq>(
    settling: &mut HashMap<K, SettlingPeriod>,
    key: K,
    time: Duration,
    age: Duration,
    now: ClockReading,
) {
    let time_left = time.saturating_sub(age);
    if time_left.is_zero() {
        return;
    }
    let ends_at = now
        .monotonic
        .saturating_add(time.saturating_mul(MAX_EXTENSION));
    let changes = settling.entry(key).or_insert(SettlingPeriod {
        settled_at: now.monotonic,
        ends_at,
    });
    changes.settled_at = now.monotonic.saturating_add(time_left);
}

//! How long a VPA object is left alone after a change of it, or of what its namespace demands.
//!
//! The objects of one manifest arrive one after the other, in any order. A pod that was evicted
//! between a VPA object and its `LimitRange` or `PodDisruptionBudget` was evicted for nothing, or
//! against a budget. So pods wait until nothing has changed for some seconds. Changes that go on
//! and on hold them for at most [`LONGEST`] times as long.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use view::{Autoscaler, Change, Entry, LimitRange, ObjectKey, Quota, View};

use super::changes::ClusterChanges;
use super::clock::ClockReading;
use super::index::same_budget;

/// The longest hold by changes in a row, in settling times.
const MAX_EXTENSION: u32 = 6;

/// What changed a short time ago.
#[derive(Debug, Clone, Default)]
pub(super) struct Settling {
    has_observed: bool,
    changed_vpas: HashMap<ObjectKey, SettlingPeriod>,
    changed_namespaces: HashMap<String, SettlingPeriod>,
}

/// Changes in a row, by the steady clock.
#[derive(Debug, Clone, Copy)]
struct SettlingPeriod {
    settled_at: Duration,
    /// It is taken for settled then, whatever changes.
    ends_at: Duration,
}

impl SettlingPeriod {
    fn time_left(self, now: ClockReading) -> Option<Duration> {
        let time_left = self
            .settled_at
            .min(self.ends_at)
            .checked_sub(now.monotonic)?;
        (!time_left.is_zero()).then_some(time_left)
    }
}

impl Settling {
    /// Notes what changed since the last look. At the first one everything is new: the age of a VPA
    /// object counts then, so that a restart delays no object but those that were just made.
    pub(super) fn observe(
        &mut self,
        view: &View,
        changes: &ClusterChanges,
        settling: Duration,
        now: ClockReading,
    ) {
        if settling.is_zero() || !view.is_synced() {
            return;
        }
        self.changed_vpas
            .retain(|_, changing| changing.settled_at > now.monotonic);
        self.changed_namespaces
            .retain(|_, changing| changing.settled_at > now.monotonic);
        if !std::mem::replace(&mut self.has_observed, true) {
            for vpa in view.autoscalers.iter() {
                let age = age(vpa, now);
                record(&mut self.changed_vpas, vpa.key.clone(), settling, age, now);
            }
            return;
        }

        let same_spec = |before: &Autoscaler, after: &Autoscaler| {
            before.uid() == after.uid() && before.object.spec == after.object.spec
        };
        for key in changed(&changes.vpas, same_spec) {
            record(
                &mut self.changed_vpas,
                key.clone(),
                settling,
                Duration::ZERO,
                now,
            );
        }

        // The status of a budget changes with each of its pods.
        let namespaces: BTreeSet<&str> = changed(&changes.limit_ranges, LimitRange::eq)
            .chain(changed(&changes.quotas, Quota::eq))
            .chain(changed(&changes.budgets, same_budget))
            .map(|key| key.namespace.as_str())
            .collect();
        for namespace in namespaces {
            record(
                &mut self.changed_namespaces,
                namespace.to_owned(),
                settling,
                Duration::ZERO,
                now,
            );
        }
    }

    /// How long the pods of this VPA object still wait.
    pub(super) fn time_left(&self, vpa: &ObjectKey, now: ClockReading) -> Option<Duration> {
        let own = self.changed_vpas.get(vpa);
        let namespace = self.changed_namespaces.get(&vpa.namespace);
        own.into_iter()
            .chain(namespace)
            .filter_map(|changes| changes.time_left(now))
            .max()
    }
}

/// The age of a VPA object; one without a time is old.
fn age(vpa: &Autoscaler, now: ClockReading) -> Duration {
    let created = vpa.object.metadata.creation_timestamp.as_ref();
    created.map_or(Duration::MAX, |created| now.since(created.0))
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

/// The keys of objects that are new, are gone or are not the same as before.
fn changed<T: Entry<Key = ObjectKey>>(
    changes: &[Change<T>],
    is_same: impl Fn(&T, &T) -> bool,
) -> impl Iterator<Item = &ObjectKey> {
    changes
        .iter()
        .filter_map(move |Change { old, new }| match (old, new) {
            (Some(old), Some(new)) => (!is_same(old, new)).then(|| new.key()),
            (old, new) => new.as_ref().or(old.as_ref()).map(|object| object.key()),
        })
}

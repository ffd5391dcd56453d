//! How long a VPA object is left alone after a change of it, or of what its namespace demands.
//!
//! The objects of one manifest arrive one after the other, in any order. A pod that was evicted between a VPA object and its
//! `LimitRange` or `PodDisruptionBudget` was evicted for nothing, or against a budget. So pods wait until nothing has changed
//! for some seconds. Changes that go on and on hold them for at most [`LONGEST`] times as long.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use cluster::{Autoscaler, DisruptionBudget, Entry, LimitRange, ObjectKey, Quota, Table, View};

use super::moment::Moment;

/// The longest hold by changes in a row, in settling times.
const LONGEST: u32 = 6;

/// The objects at the last look, and those that changed a short time ago.
#[derive(Debug, Clone, Default)]
pub(super) struct Settling {
    has_looked: bool,
    autoscalers: Vec<Arc<Autoscaler>>,
    limit_ranges: Vec<Arc<LimitRange>>,
    quotas: Vec<Arc<Quota>>,
    budgets: Vec<Arc<DisruptionBudget>>,
    changed_autoscalers: HashMap<ObjectKey, Changes>,
    changed_namespaces: HashMap<String, Changes>,
}

/// Changes in a row, by the steady clock.
#[derive(Debug, Clone, Copy)]
struct Changes {
    settled_at: Duration,
    /// It is taken for settled then, whatever changes.
    ends_at: Duration,
}

impl Changes {
    fn left(self, now: Moment) -> Option<Duration> {
        let left = self.settled_at.min(self.ends_at).checked_sub(now.steady)?;
        (!left.is_zero()).then_some(left)
    }
}

impl Settling {
    /// Notes what changed since the last look. At the first one everything is new: the age of a VPA object counts then, so that
    /// a restart delays no object but those that were just made.
    pub(super) fn look(&mut self, view: &View, settling: Duration, now: Moment) {
        if settling.is_zero() || !view.is_synced() {
            return;
        }
        self.changed_autoscalers.retain(|_, changes| changes.settled_at > now.steady);
        self.changed_namespaces.retain(|_, changes| changes.settled_at > now.steady);
        let is_first = !std::mem::replace(&mut self.has_looked, true);

        let same_spec = |before: &Autoscaler, after: &Autoscaler| {
            before.uid() == after.uid() && before.object.spec == after.object.spec
        };
        for key in changed(&mut self.autoscalers, &view.autoscalers, same_spec) {
            let age = if is_first { age(view, &key, now) } else { Duration::ZERO };
            note(&mut self.changed_autoscalers, key, settling, age, now);
        }

        // The status of a budget changes with each of its pods.
        let same_budget = |before: &DisruptionBudget, after: &DisruptionBudget| {
            before.generation == after.generation && before.selector == after.selector
        };
        let mut namespaces = changed(&mut self.limit_ranges, &view.limit_ranges, LimitRange::eq);
        namespaces.extend(changed(&mut self.quotas, &view.quotas, Quota::eq));
        namespaces.extend(changed(&mut self.budgets, &view.disruption_budgets, same_budget));
        let namespaces: BTreeSet<String> = namespaces.into_iter().map(|key| key.namespace).collect();
        for namespace in namespaces.into_iter().filter(|_| !is_first) {
            note(&mut self.changed_namespaces, namespace, settling, Duration::ZERO, now);
        }
    }

    /// How long the pods of this VPA object still wait.
    pub(super) fn left(&self, autoscaler: &ObjectKey, now: Moment) -> Option<Duration> {
        let own = self.changed_autoscalers.get(autoscaler);
        let namespace = self.changed_namespaces.get(&autoscaler.namespace);
        own.into_iter().chain(namespace).filter_map(|changes| changes.left(now)).max()
    }
}

/// The age of a VPA object; one without a time is old.
fn age(view: &View, key: &ObjectKey, now: Moment) -> Duration {
    let created = view.autoscalers.get(key).and_then(|object| object.object.metadata.creation_timestamp.as_ref());
    created.map_or(Duration::MAX, |created| now.since(created.0))
}

fn note<K: std::hash::Hash + Eq>(
    settling: &mut HashMap<K, Changes>,
    key: K,
    time: Duration,
    age: Duration,
    now: Moment,
) {
    let left = time.saturating_sub(age);
    if left.is_zero() {
        return;
    }
    let ends_at = now.steady.saturating_add(time.saturating_mul(LONGEST));
    let changes = settling.entry(key).or_insert(Changes { settled_at: now.steady, ends_at });
    changes.settled_at = now.steady.saturating_add(left);
}

/// The keys of objects that are new, are gone or are not the same as before. Both are in the order of their keys.
fn changed<T: Entry<Key = ObjectKey>>(
    before: &mut Vec<Arc<T>>,
    table: &Table<T>,
    is_same: impl Fn(&T, &T) -> bool,
) -> Vec<ObjectKey> {
    let mut all_before = std::mem::take(before).into_iter().peekable();
    let mut changed = Vec::new();
    for after in table.iter() {
        while let Some(gone) = all_before.next_if(|object| object.key() < after.key()) {
            changed.push(gone.key().clone());
        }
        let known = all_before.next_if(|object| object.key() == after.key());
        if !known.is_some_and(|known| Arc::ptr_eq(&known, after) || is_same(&known, after)) {
            changed.push(after.key().clone());
        }
        before.push(Arc::clone(after));
    }
    changed.extend(all_before.map(|gone| gone.key().clone()));
    changed
}

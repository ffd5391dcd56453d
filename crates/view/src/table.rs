//! Objects of one kind by key. `apply`, `delete` and `reset` return the real changes.
//!
//! Objects are ordered by key and looked up by hash. A borrowed key such as [`ObjectName`] has the
//! same hash, so that a lookup needs no allocation.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use hashbrown::hash_table::Entry as Slot;
use hashbrown::{Equivalent, HashMap, HashTable};
use kube::core::ObjectMeta;
use model::{Workload, WorkloadRef};

/// Namespace and name. Cluster-wide objects have an empty namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Builds a key from the two fields of an object's metadata.
    pub(crate) fn of(namespace: Option<String>, name: Option<String>) -> Self {
        Self::new(namespace.unwrap_or_default(), name.unwrap_or_default())
    }
}

impl From<&ObjectMeta> for ObjectKey {
    fn from(metadata: &ObjectMeta) -> Self {
        Self::of(metadata.namespace.clone(), metadata.name.clone())
    }
}

/// A borrowed [`ObjectKey`] for lookups; both have the same hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectName<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Equivalent<ObjectKey> for ObjectName<'_> {
    fn equivalent(&self, key: &ObjectKey) -> bool {
        self.name == key.name && self.namespace == key.namespace
    }
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A borrowed [`WorkloadRef`] for lookups; both have the same hash.
#[derive(Hash)]
pub(crate) struct Named<'a>(pub(crate) Workload<'a>);

impl Equivalent<WorkloadRef> for Named<'_> {
    fn equivalent(&self, workload: &WorkloadRef) -> bool {
        self.0 == workload.into()
    }
}

/// An object in a [`Table`]. Readers are woken only if it differs from its predecessor.
pub trait Entry: PartialEq {
    /// Unique key among the objects of its kind.
    type Key: Ord + Hash + Clone;

    fn key(&self) -> &Self::Key;

    /// The workload that the object refers to, a secondary index; `None` without such an index.
    fn target_workload(&self) -> Option<WorkloadRef> {
        None
    }

    /// The object with what it inherits from its predecessor, which a single state does not show;
    /// `None` if that is nothing.
    fn inherited(&self, _predecessor: &Self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
}

/// Implements [`Entry`] by the field that is the key and, for a secondary index, that of the workload.
macro_rules! keyed {
    ($($entry:ty: $key:ty = $field:ident $(of $workload:ident)?,)*) => {$(
        impl Entry for $entry {
            type Key = $key;

            fn key(&self) -> &$key {
                &self.$field
            }

            $(fn target_workload(&self) -> Option<WorkloadRef> {
                Some(self.$workload.clone().of_any_version())
            })?
        }
    )*};
}

keyed! {
    crate::BoundPod: ObjectKey = key,
    crate::Checkpoint: ObjectKey = key,
    crate::DaemonSetShare: ObjectKey = key,
    crate::DisruptionBudget: ObjectKey = key,
    crate::LabelledPod: ObjectKey = key,
    crate::LimitRange: ObjectKey = key,
    crate::Eviction: ObjectKey = key,
    crate::Node: String = name,
    crate::NodePool: String = name,
    crate::NodeClaim: String = name,
    crate::AutoscaledGroups: ObjectKey = key,
    crate::Policy: ObjectKey = key,
    crate::Quota: ObjectKey = key,
    crate::ReadScale: crate::ScaleKey = key,
    crate::StopSwitch: ObjectKey = key,
    crate::Namespace: String = name,
    crate::WebhookLease: ObjectKey = key,
    crate::Controller: ObjectKey = key,
    crate::CronSchedule: ObjectKey = key of target,
    crate::HpaTargets: ObjectKey = key of workload,
    crate::Prediction: ObjectKey = key of target,
}

/// One difference between the table before and after. At least one side is present.
#[derive(Debug)]
pub struct Change<T> {
    /// The object before; `None` if it is new.
    pub old: Option<Arc<T>>,
    /// The object after; `None` if it is deleted.
    pub new: Option<Arc<T>>,
}

impl<T> Change<T> {
    /// The object before and after, as far as there is one.
    pub fn sides(&self) -> impl Iterator<Item = &Arc<T>> {
        self.old.iter().chain(&self.new)
    }
}

/// The keys of objects that were created or deleted, or whose states are not the same.
pub fn changed_keys<'a, T: Entry + 'a>(
    changes: impl IntoIterator<Item = &'a Change<T>>,
    is_same: impl Fn(&T, &T) -> bool,
) -> impl Iterator<Item = &'a T::Key> {
    changes
        .into_iter()
        .filter_map(move |change| match (&change.old, &change.new) {
            (Some(old), Some(new)) => (!is_same(old, new)).then(|| new.key()),
            (old, new) => new.as_ref().or(old.as_ref()).map(|object| object.key()),
        })
}

#[derive(Debug, Clone)]
pub struct Table<T: Entry> {
    in_order: BTreeMap<T::Key, Arc<T>>,
    by_hash: HashTable<Arc<T>>,
    /// Secondary index; objects of one workload are in the order of their keys.
    by_workload: HashMap<WorkloadRef, Vec<Arc<T>>, RandomState>,
    /// Random, because tenants choose the names and must not be able to choose colliding ones.
    hasher: RandomState,
}

impl<T: Entry> Default for Table<T> {
    fn default() -> Self {
        let hasher = RandomState::new();
        Self {
            in_order: BTreeMap::new(),
            by_hash: HashTable::new(),
            by_workload: HashMap::with_hasher(hasher.clone()),
            hasher,
        }
    }
}

impl<T: Entry<Key = ObjectKey>> Table<T> {
    /// Iterates over the objects of one namespace, by name.
    pub fn in_namespace<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        let objects = self.starting_at(ObjectKey::new(namespace, ""));
        objects.take_while(move |object| object.key().namespace == namespace)
    }
}

impl<T: Entry> Table<T> {
    pub fn get<K: Hash + Equivalent<T::Key> + ?Sized>(&self, key: &K) -> Option<&Arc<T>> {
        self.by_hash.find(self.hasher.hash_one(key), |object| {
            key.equivalent(object.key())
        })
    }

    /// Iterates over all objects in key order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<T>> {
        self.in_order.values()
    }

    /// Iterates over the objects from this key on, in key order.
    pub fn starting_at(&self, key: T::Key) -> impl Iterator<Item = &Arc<T>> {
        self.in_order.range(key..).map(|(_, object)| object)
    }

    /// Iterates over the objects that refer to this workload, in key order.
    pub fn by_workload<'a>(
        &'a self,
        workload: Workload<'_>,
    ) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        self.by_workload.get(&Named(workload)).into_iter().flatten()
    }

    pub fn len(&self) -> usize {
        self.in_order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.in_order.is_empty()
    }

    /// Inserts the object or replaces the one with its key. Returns `None` if both are equal.
    pub fn apply(&mut self, object: Arc<T>) -> Option<Change<T>> {
        let inherited = self.get(object.key()).and_then(|old| object.inherited(old));
        let object = inherited.map_or(object, Arc::new);
        let key = object.key();
        let hash = self.hasher.hash_one(key);
        let rehash = |object: &Arc<T>| self.hasher.hash_one(object.key());
        let old = match self.by_hash.entry(hash, |other| other.key() == key, rehash) {
            Slot::Occupied(slot) if *slot.get() == object => return None,
            Slot::Occupied(mut slot) => {
                Some(std::mem::replace(slot.get_mut(), Arc::clone(&object)))
            }
            Slot::Vacant(slot) => {
                slot.insert(Arc::clone(&object));
                None
            }
        };
        self.in_order.insert(key.clone(), Arc::clone(&object));
        self.index(old.as_ref(), Some(&object));
        let new = Some(object);
        Some(Change { old, new })
    }

    /// Removes the object. Returns `None` if it is absent.
    pub fn delete(&mut self, key: &T::Key) -> Option<Change<T>> {
        let old = self.in_order.remove(key)?;
        let hash = self.hasher.hash_one(key);
        if let Ok(slot) = self.by_hash.find_entry(hash, |object| object.key() == key) {
            slot.remove();
        }
        self.index(Some(&old), None);
        let old = Some(old);
        Some(Change { old, new: None })
    }

    /// Replaces the content by `objects`. Absent ones were deleted while the watch was down.
    pub fn reset(&mut self, objects: Vec<Arc<T>>) -> Vec<Change<T>> {
        let mut gone: BTreeSet<T::Key> = self.in_order.keys().cloned().collect();
        let mut changes = Vec::new();
        for object in objects {
            gone.remove(object.key());
            changes.extend(self.apply(object));
        }
        changes.extend(gone.iter().filter_map(|key| self.delete(key)));
        changes
    }

    fn index(&mut self, old: Option<&Arc<T>>, new: Option<&Arc<T>>) {
        let place = |objects: &[Arc<T>], key: &T::Key| {
            objects.binary_search_by(|object| object.key().cmp(key))
        };
        if let Some((workload, old)) = old.and_then(|old| old.target_workload().zip(Some(old)))
            && let Some(objects) = self.by_workload.get_mut(&workload)
        {
            if let Ok(index) = place(objects, old.key()) {
                objects.remove(index);
            }
            if objects.is_empty() {
                self.by_workload.remove(&workload);
            }
        }
        if let Some((workload, new)) = new.and_then(|new| new.target_workload().zip(Some(new))) {
            let objects = self.by_workload.entry(workload).or_default();
            let index = place(objects, new.key()).unwrap_or_else(|index| index);
            objects.insert(index, Arc::clone(new));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Verb = (u8, Vec<(u8, u8)>);

    #[derive(Debug, PartialEq)]
    struct Thing(u8, u8);

    impl Entry for Thing {
        type Key = u8;
        fn key(&self) -> &u8 {
            &self.0
        }
        fn target_workload(&self) -> Option<WorkloadRef> {
            (self.1 > 0).then(|| workload(self.1))
        }
    }

    fn workload(number: u8) -> WorkloadRef {
        WorkloadRef {
            name: number.to_string(),
            ..WorkloadRef::default()
        }
    }

    fn things(pairs: &[(u8, u8)]) -> Vec<Arc<Thing>> {
        let thing = |(key, value): &(u8, u8)| Arc::new(Thing(*key, *value));
        pairs.iter().map(thing).collect()
    }

    fn table(pairs: &[(u8, u8)]) -> Table<Thing> {
        let mut table = Table::default();
        table.reset(things(pairs));
        table
    }

    fn check(
        changes: impl IntoIterator<Item = Change<Thing>>,
        expected: &[(Option<u8>, Option<u8>)],
    ) {
        let value = |thing: Option<Arc<Thing>>| thing.map(|thing| thing.1);
        let values = changes
            .into_iter()
            .map(|change| (value(change.old), value(change.new)));
        assert_eq!(values.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_equal_object_changes_nothing() {
        check(table(&[(1, 10)]).apply(Arc::new(Thing(1, 10))), &[]);
        check(table(&[(1, 10)]).reset(things(&[(1, 10)])), &[]);
        check(table(&[(1, 10)]).delete(&2), &[]);
    }

    #[test]
    fn a_change_names_both_sides() {
        let applied = |pairs, value| table(pairs).apply(Arc::new(Thing(1, value)));
        check(applied(&[], 10), &[(None, Some(10))]);
        check(applied(&[(1, 10)], 11), &[(Some(10), Some(11))]);
        check(table(&[(1, 10)]).delete(&1), &[(Some(10), None)]);
    }

    #[test]
    fn a_reset_deletes_absent_objects() {
        check(
            table(&[(1, 10), (2, 20), (3, 30)]).reset(things(&[(2, 21), (3, 30), (4, 40)])),
            &[(Some(20), Some(21)), (None, Some(40)), (Some(10), None)],
        );
    }

    fn verbs() -> impl Strategy<Value = Vec<Verb>> {
        let pairs = proptest::collection::vec((0u8..6, 0u8..3), 0..6);
        proptest::collection::vec((0u8..3, pairs), 0..12)
    }

    proptest! {
        #[test]
        fn changes_replay_to_the_same_content(verbs in verbs()) {
            let mut table = Table::default();
            let mut replay: BTreeMap<u8, u8> = BTreeMap::new();
            for (verb, pairs) in verbs {
                let changes: Vec<Change<Thing>> = match verb {
                    0 => things(&pairs).into_iter().filter_map(|thing| table.apply(thing)).collect(),
                    1 => pairs.iter().filter_map(|(key, _)| table.delete(key)).collect(),
                    _ => {
                        let unique: BTreeMap<u8, u8> = pairs.into_iter().collect();
                        table.reset(things(&unique.into_iter().collect::<Vec<_>>()))
                    }
                };
                for Change { old, new } in changes {
                    if let Some(old) = old {
                        prop_assert_eq!(replay.remove(&old.0), Some(old.1));
                    }
                    if let Some(new) = new {
                        prop_assert_eq!(replay.insert(new.0, new.1), None);
                    }
                }
                for value in 1..3 {
                    let by_workload: Vec<u8> = table.by_workload((&workload(value)).into()).map(|thing| thing.0).collect();
                    let all = table.iter().filter(|thing| thing.1 == value).map(|thing| thing.0);
                    prop_assert_eq!(by_workload, all.collect::<Vec<u8>>());
                }
                for key in 0..6 {
                    let found = table.get(&key).map(|thing| (thing.0, thing.1));
                    prop_assert_eq!(found, replay.get(&key).map(|value| (key, *value)));
                }
                let content: BTreeMap<u8, u8> = table.iter().map(|thing| (thing.0, thing.1)).collect();
                prop_assert_eq!(&replay, &content);
            }
        }
    }
}

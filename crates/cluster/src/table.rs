//! Objects of one kind by key, changed by `apply`, `delete` and `reset`; each says what really changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::WorkloadRef;

/// Namespace and name. Cluster-wide objects have an empty namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Namespace, empty for cluster-wide objects.
    pub namespace: String,
    /// Name within the namespace.
    pub name: String,
}

impl ObjectKey {
    /// A key from its two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What a [`Table`] can hold: equality decides whether anybody is woken.
pub trait Entry: PartialEq {
    /// What makes the object unique among its kind.
    type Key: Ord + Clone;

    /// The object's key.
    fn key(&self) -> Self::Key;

    /// The workload that the object is about, by which it is found too; none where nobody asks.
    fn about(&self) -> Option<WorkloadRef> {
        None
    }
}

/// One difference between the table before and after. At least one side is there.
#[derive(Debug)]
pub struct Change<T> {
    /// The object as it was; none when it is new.
    pub old: Option<Arc<T>>,
    /// The object as it is; none when it is gone.
    pub new: Option<Arc<T>>,
}

/// Objects of one kind.
#[derive(Debug, Clone)]
pub struct Table<T: Entry> {
    entries: BTreeMap<T::Key, Arc<T>>,
    about: BTreeMap<WorkloadRef, BTreeSet<T::Key>>,
}

impl<T: Entry> Default for Table<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), about: BTreeMap::new() }
    }
}

impl<T: Entry> Table<T> {
    /// The object with this key.
    pub fn get(&self, key: &T::Key) -> Option<&Arc<T>> {
        self.entries.get(key)
    }

    /// All objects, by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<T>> {
        self.entries.values()
    }

    /// The objects from this key on, by key.
    pub fn starting_at(&self, key: T::Key) -> impl Iterator<Item = &Arc<T>> {
        self.entries.range(key..).map(|(_, object)| object)
    }

    /// The objects that are about this workload, by key.
    pub fn about<'a>(&'a self, workload: &WorkloadRef) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        self.about.get(workload).into_iter().flatten().filter_map(|key| self.entries.get(key))
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Puts the object in place of the one with its key; none when the two are equal.
    pub fn apply(&mut self, object: Arc<T>) -> Option<Change<T>> {
        let key = object.key();
        if self.entries.get(&key).is_some_and(|old| *old == object) {
            return None;
        }
        let old = self.entries.insert(key.clone(), Arc::clone(&object));
        self.index(&key, old.as_deref(), Some(&object));
        Some(Change { old, new: Some(object) })
    }

    /// Takes the object away; none when there was none.
    pub fn delete(&mut self, key: &T::Key) -> Option<Change<T>> {
        let old = self.entries.remove(key)?;
        self.index(key, Some(&old), None);
        Some(Change { old: Some(old), new: None })
    }

    /// Makes `objects` the whole content: what is not among them was deleted while nobody watched.
    pub fn reset(&mut self, objects: Vec<Arc<T>>) -> Vec<Change<T>> {
        let mut gone: BTreeSet<T::Key> = self.entries.keys().cloned().collect();
        let mut changes = Vec::new();
        for object in objects {
            gone.remove(&object.key());
            changes.extend(self.apply(object));
        }
        changes.extend(gone.iter().filter_map(|key| self.delete(key)));
        changes
    }

    fn index(&mut self, key: &T::Key, old: Option<&T>, new: Option<&T>) {
        let (old, new) = (old.and_then(T::about), new.and_then(T::about));
        if old == new {
            return;
        }
        if let Some(workload) = old
            && let Some(keys) = self.about.get_mut(&workload)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.about.remove(&workload);
            }
        }
        if let Some(workload) = new {
            self.about.entry(workload).or_default().insert(key.clone());
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
        fn key(&self) -> u8 {
            self.0
        }
        fn about(&self) -> Option<WorkloadRef> {
            (self.1 > 0).then(|| workload(self.1))
        }
    }

    fn workload(number: u8) -> WorkloadRef {
        WorkloadRef { name: number.to_string(), ..WorkloadRef::default() }
    }

    fn things(pairs: &[(u8, u8)]) -> Vec<Arc<Thing>> {
        pairs.iter().map(|(key, value)| Arc::new(Thing(*key, *value))).collect()
    }

    fn table(pairs: &[(u8, u8)]) -> Table<Thing> {
        let mut table = Table::default();
        table.reset(things(pairs));
        table
    }

    fn check(changes: impl IntoIterator<Item = Change<Thing>>, expected: &[(Option<u8>, Option<u8>)]) {
        let values: Vec<_> =
            changes.into_iter().map(|change| (change.old.map(|old| old.1), change.new.map(|new| new.1))).collect();
        assert_eq!(values, expected);
    }

    #[test]
    fn an_equal_object_changes_nothing() {
        check(table(&[(1, 10)]).apply(Arc::new(Thing(1, 10))), &[]);
        check(table(&[(1, 10)]).reset(things(&[(1, 10)])), &[]);
        check(table(&[(1, 10)]).delete(&2), &[]);
    }

    #[test]
    fn a_change_names_both_sides() {
        check(table(&[]).apply(Arc::new(Thing(1, 10))), &[(None, Some(10))]);
        check(table(&[(1, 10)]).apply(Arc::new(Thing(1, 11))), &[(Some(10), Some(11))]);
        check(table(&[(1, 10)]).delete(&1), &[(Some(10), None)]);
    }

    #[test]
    fn a_reset_deletes_what_is_no_longer_there() {
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
        /// Whoever follows the changes knows what the table knows.
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
                    let about: Vec<u8> = table.about(&workload(value)).map(|thing| thing.0).collect();
                    let all = table.iter().filter(|thing| thing.1 == value).map(|thing| thing.0);
                    prop_assert_eq!(about, all.collect::<Vec<u8>>());
                }
                let content: BTreeMap<u8, u8> = table.iter().map(|thing| (thing.0, thing.1)).collect();
                prop_assert_eq!(&replay, &content);
            }
        }
    }
}

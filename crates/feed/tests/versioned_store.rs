//! Every reader ends with the state of the store, whatever happens between and during its reads.

use std::collections::BTreeMap;
use std::time::Duration;

use feed::topic::Change;
use feed::versioned_store::{Cursor, Item, Key, VersionedStore};
use jiff::Timestamp;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::Config;

/// A key that every state has: no reader may miss it once its first reset is complete.
const LASTING: &str = "lasting";

#[derive(Debug, Clone)]
enum Action {
    Apply(u8, u32),
    Delete(u8),
    Reset(BTreeMap<u8, u32>),
    /// Reader number and maximum number of values of its next batch.
    Read(usize, usize),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0..12_u8, 0..4_u32).prop_map(|(key, value)| Action::Apply(key, value)),
        3 => (0..12_u8).prop_map(Action::Delete),
        1 => btree_map(0..12_u8, 0..4_u32, 0..12).prop_map(Action::Reset),
        6 => (0..2_usize, 1..4_usize).prop_map(|(reader, values)| Action::Read(reader, values)),
    ]
}

/// A reader with the merge rules of the protocol.
#[derive(Debug, Default)]
struct Reader {
    cursor: Cursor,
    values: BTreeMap<Key, u32>,
    parts: Option<BTreeMap<Key, u32>>,
    is_complete: bool,
}

impl Reader {
    /// Reads one batch of at most `most` values. Returns false if it is empty.
    fn read(&mut self, store: &VersionedStore<u32>, most: usize) -> bool {
        let mut count = 0;
        let fits = |_: &u32| {
            count += 1;
            count <= most
        };
        let Some(step) = store.next(&mut self.cursor, fits) else {
            return false;
        };
        let put = |values: &mut BTreeMap<Key, u32>, items: Vec<Item<u32>>| {
            assert!(items.len() <= most, "{items:?}");
            values.extend(items.into_iter().map(|item| (item.key, item.value)));
        };
        match step.change {
            Change::Reset {
                values: items,
                first,
                complete,
            } => {
                let mut parts = self.parts.take().filter(|_| !first).unwrap_or_default();
                put(&mut parts, items);
                if complete {
                    self.values = parts;
                    self.is_complete = true;
                } else {
                    self.parts = Some(parts);
                }
            }
            Change::Apply(items) => put(&mut self.values, items),
            Change::Delete(keys) => keys.iter().for_each(|key| {
                self.values.remove(key.as_str());
            }),
        }
        true
    }
}

fn key(number: u8) -> String {
    format!("key-{number}")
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn every_reader_ends_with_the_state_of_the_store(actions in vec(action(), 0..120), max_deletions in 0..6_usize) {
        let now = Timestamp::UNIX_EPOCH;
        let mut store = VersionedStore::new(max_deletions);
        let mut state = BTreeMap::from([(Key::from(LASTING), 0)]);
        store.apply(LASTING, 0, now);
        let mut readers = [Reader::default(), Reader::default()];
        for action in actions {
            match action {
                Action::Apply(number, value) => {
                    store.apply(&key(number), value, now);
                    state.insert(key(number).into(), value);
                }
                Action::Delete(number) => {
                    store.delete(&key(number), now);
                    state.remove(key(number).as_str());
                }
                Action::Reset(values) => {
                    state = values.into_iter().map(|(number, value)| (key(number).into(), value)).collect();
                    state.insert(LASTING.into(), 0);
                    store.reset(state.clone(), now);
                }
                Action::Read(reader, most) => {
                    readers[reader].read(&store, most);
                    let reader = &readers[reader];
                    prop_assert!(!reader.is_complete || reader.values.contains_key(LASTING), "{:?}", reader);
                }
            }
            prop_assert_eq!(store.len(), state.len());
        }
        for reader in &mut readers {
            while reader.read(&store, 3) {}
            prop_assert_eq!(&reader.values, &state);
        }
    }
}

#[test]
fn an_unchanged_value_is_not_published_again() {
    let now = Timestamp::UNIX_EPOCH;
    let mut store = VersionedStore::new(10);
    store.apply("a", 1, now);
    let mut reader = Reader::default();
    assert!(reader.read(&store, 10));
    let revision = store.revision();
    store.apply("a", 1, now);
    store.delete("b", now);
    store.reset(BTreeMap::from([("a".into(), 1)]), now);
    assert_eq!(store.revision(), revision);
    assert!(!reader.read(&store, 10));
}

#[test]
fn changes_that_a_reader_is_too_slow_for_become_one_and_are_counted() {
    let at = |second| Timestamp::UNIX_EPOCH + Duration::from_secs(second);
    let mut store = VersionedStore::new(10);
    store.apply("a", 0, at(0));
    let mut cursor = Cursor::default();
    store.next(&mut cursor, |_| true).expect("the reset");
    for second in 1..=100 {
        store.apply("a", second, at(second));
        store.apply("b", second, at(second));
    }
    let step = store.next(&mut cursor, |_| true).expect("the changes");
    let items = [("a", 199), ("b", 200)];
    let items = items.map(|(key, revision)| Item {
        key: key.into(),
        revision: revision + 1,
        changed_at: at(100),
        value: 100,
    });
    assert_eq!(step.change, Change::Apply(items.into()));
    assert_eq!((step.coalesced, step.oldest), (198, Some(at(1))));
    assert_eq!(store.next(&mut cursor, |_| true), None);
}

#[test]
fn deletions_do_not_pile_up() {
    let now = Timestamp::UNIX_EPOCH;
    let mut store = VersionedStore::new(10);
    let mut reader = Reader::default();
    store.apply("kept", 1, now);
    store.apply(LASTING, 1, now);
    assert!(reader.read(&store, 10));
    for number in 0..1000 {
        store.apply(&format!("{number}"), 1, now);
        store.delete(&format!("{number}"), now);
    }
    let mut cursor = Cursor::default();
    let step = store.next(&mut cursor, |_| true).expect("the reset");
    assert!(
        matches!(step.change, Change::Reset { values, complete: true, .. } if values.len() == 2)
    );
    let mut steps = 0;
    while reader.read(&store, 10) {
        steps += 1;
    }
    assert!(
        steps <= 2,
        "a reader that was far behind begins again: {steps} steps"
    );
    assert_eq!(reader.values.len(), 2);
}

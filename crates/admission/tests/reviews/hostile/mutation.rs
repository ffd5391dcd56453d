//! Mutations of a review: of its values, then of its bytes.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub(super) enum Mutation {
    /// Replaces a value by an odd one.
    Replace(Index, Index),
    Remove(Index),
    /// Replaces a value by another value of the review.
    Copy(Index, Index),
    /// Repeats an entry of a map under another name, or elements of a list.
    Repeat(Index, u8),
    Byte(Index, u8),
    Cut(Index, Index),
    Double(Index, Index),
    Insert(Index, Vec<u8>),
}

impl Mutation {
    pub(super) fn any() -> impl Strategy<Value = Self> {
        let index = any::<Index>;
        prop_oneof![
            4 => (index(), index()).prop_map(|(place, value)| Self::Replace(place, value)),
            2 => index().prop_map(Self::Remove),
            2 => (index(), index()).prop_map(|(from, to)| Self::Copy(from, to)),
            1 => (index(), any::<u8>()).prop_map(|(place, name)| Self::Repeat(place, name)),
            1 => (index(), any::<u8>()).prop_map(|(place, byte)| Self::Byte(place, byte)),
            1 => (index(), index()).prop_map(|(from, to)| Self::Cut(from, to)),
            1 => (index(), index()).prop_map(|(from, to)| Self::Double(from, to)),
            1 => (index(), prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(place, bytes)| Self::Insert(place, bytes)),
        ]
    }
}

/// The body of a review after these mutations.
pub(super) fn apply(review: &Value, mutations: &[Mutation]) -> Vec<u8> {
    let mut review = review.clone();
    for mutation in mutations {
        change_value(&mut review, mutation);
    }
    let mut body = review.to_string().into_bytes();
    for mutation in mutations {
        change_bytes(&mut body, mutation);
    }
    body
}

fn change_value(review: &mut Value, mutation: &Mutation) {
    let mut paths = Vec::new();
    collect(review, String::new(), &mut paths);
    let pick = |index: &Index| paths[index.index(paths.len())].as_str();
    match mutation {
        Mutation::Replace(place, value) => {
            let value = ODD_VALUES[value.index(ODD_VALUES.len())].clone();
            put(review, pick(place), value);
        }
        Mutation::Remove(place) => remove(review, pick(place)),
        Mutation::Copy(from, to) => {
            let value = review.pointer(pick(from)).cloned().unwrap_or_default();
            put(review, pick(to), value);
        }
        Mutation::Repeat(place, name) => match review.pointer_mut(pick(place)) {
            Some(Value::Object(map)) => {
                let value = map.values().next().cloned().unwrap_or_default();
                map.insert(format!("x{name}"), value);
            }
            Some(Value::Array(list)) => list.extend_from_within(..list.len().min(8)),
            _ => {}
        },
        Mutation::Byte(..) | Mutation::Cut(..) | Mutation::Double(..) | Mutation::Insert(..) => {}
    }
}

fn change_bytes(body: &mut Vec<u8>, mutation: &Mutation) {
    if body.is_empty() {
        return;
    }
    let range = |from: &Index, to: &Index| {
        let (a, b) = (from.index(body.len()), to.index(body.len()));
        a.min(b)..a.max(b).min(a.min(b) + 64)
    };
    match mutation {
        Mutation::Byte(place, byte) => {
            let place = place.index(body.len());
            body[place] = *byte;
        }
        Mutation::Cut(from, to) => {
            let range = range(from, to);
            body.drain(range);
        }
        Mutation::Double(from, to) => {
            let range = range(from, to);
            let (place, again) = (range.start, body[range].to_vec());
            body.splice(place..place, again);
        }
        Mutation::Insert(place, bytes) => {
            let place = place.index(body.len());
            body.splice(place..place, bytes.iter().copied());
        }
        Mutation::Replace(..)
        | Mutation::Remove(..)
        | Mutation::Copy(..)
        | Mutation::Repeat(..) => {}
    }
}

static ODD_VALUES: LazyLock<Vec<Value>> = LazyLock::new(odd_values);

fn odd_values() -> Vec<Value> {
    let mut deep = json!(1);
    for _ in 0..200 {
        deep = Value::Array(vec![deep]);
    }
    let texts = "0 -1 1n 1e2000000000 9223372036854775808 7E -9E 1.5Gi 12345678901234567890123456789 \
                 x Always Off CREATE";
    let mut values = vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e308),
        json!([]),
        json!({}),
        json!([null]),
        json!({"": null}),
        json!("a/b~c\u{0}\u{1F600}\"\\"),
        json!("x".repeat(3000)),
        deep,
        json!({"cpu": "1", "memory": null, "": "1", "nvidia.com/gpu": "1"}),
        json!(""),
    ];
    values.extend(texts.split(' ').map(Value::from));
    values
}

fn collect(value: &Value, path: String, paths: &mut Vec<String>) {
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    // Deeper values than those of reviews are not mutated.
    if path.len() < 400 {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    collect(value, format!("{path}/{}", escaped(key)), paths);
                }
            }
            Value::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    collect(value, format!("{path}/{index}"), paths);
                }
            }
            _ => {}
        }
    }
    paths.push(path);
}

fn put(review: &mut Value, path: &str, value: Value) {
    if let Some(place) = review.pointer_mut(path) {
        *place = value;
    }
}

fn remove(review: &mut Value, path: &str) {
    let Some((above, key)) = path.rsplit_once('/') else {
        return;
    };
    let key = key.replace("~1", "/").replace("~0", "~");
    match review.pointer_mut(above) {
        Some(Value::Object(map)) => {
            map.remove(&key);
        }
        Some(Value::Array(list)) => {
            if let Some(index) = key.parse().ok().filter(|index| *index < list.len()) {
                list.remove(index);
            }
        }
        _ => {}
    }
}

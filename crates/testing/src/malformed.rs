//! JSON texts with changed values and bytes, for tests of readers.

use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

const ODD_TEXTS: [&str; 16] = [
    "",
    "-1",
    "1e999",
    "-7E",
    "1.2.3",
    "NaN",
    "0x10",
    "9223372036854775808",
    "💥",
    "a\u{0}b",
    "*",
    "../..",
    "1n",
    "2026-13-45T99:99:99Z",
    "61 25 * * MON",
    "Ünïcode/☃",
];

fn odd(random: &mut StdRng) -> Value {
    match random.random_range(0..10) {
        0 => Value::Null,
        1 => json!(random.random::<bool>()),
        2 => json!(random.random::<i64>()),
        3 => json!(random.random::<f64>() * 1e300),
        4 => json!(u64::MAX),
        5 => json!([]),
        6 => json!({}),
        7 => json!({"name": "a", "": [[[{}]]]}),
        _ => json!(ODD_TEXTS[random.random_range(0..ODD_TEXTS.len())]),
    }
}

/// Changes one value somewhere within.
fn mutate(value: &mut Value, random: &mut StdRng) {
    let goes_on = random.random_range(0..8) > 0;
    match value {
        Value::Object(map) if goes_on && !map.is_empty() => {
            let key = map.keys().nth(random.random_range(0..map.len()));
            let key = key.cloned().unwrap_or_default();
            match random.random_range(0..20) {
                0 => drop(map.remove(&key)),
                1 => drop(map.insert(
                    ODD_TEXTS[random.random_range(0..ODD_TEXTS.len())].to_owned(),
                    odd(random),
                )),
                2 => {
                    let is_large = random.random_range(0..50) == 0;
                    let many = if is_large { 20_000 } else { 20 };
                    map.extend((0..many).map(|number| (format!("k{number}"), json!("v"))));
                }
                _ => map
                    .get_mut(&key)
                    .into_iter()
                    .for_each(|inner| mutate(inner, random)),
            }
        }
        Value::Array(list) if goes_on && !list.is_empty() => {
            let index = random.random_range(0..list.len());
            match random.random_range(0..8) {
                0 => drop(list.remove(index)),
                1 => {
                    let one = list[index].clone();
                    // Large parts are not multiplied.
                    let is_small = one.to_string().len() < 1000;
                    let is_large = random.random_range(0..50) == 0 && is_small;
                    let many = if is_large { 5000 } else { 5 };
                    list.extend(std::iter::repeat_n(one, many));
                }
                _ => mutate(&mut list[index], random),
            }
        }
        Value::String(text) if random.random_range(0..100) == 0 => {
            *text = text.repeat(100_000 / (text.len() + 1));
        }
        _ => *value = odd(random),
    }
}

/// The example with up to three changed values.
pub fn mutated(example: &Value, random: &mut StdRng) -> Value {
    let mut value = example.clone();
    (0..random.random_range(0..4)).for_each(|_| mutate(&mut value, random));
    value
}

/// Changes, cuts off or inserts bytes.
pub fn spoil(text: &mut Vec<u8>, random: &mut StdRng) {
    let at = random.random_range(0..text.len().max(1));
    match random.random_range(0..4) {
        0 => text.truncate(at),
        1 => {
            let depth = random.random_range(1..5000);
            let deep = ["[", r#"{"a":"#][random.random_range(0..2)].repeat(depth);
            text.splice(at..at, deep.into_bytes());
        }
        _ => {
            if let Some(byte) = text.get_mut(at) {
                *byte = random.random();
            }
        }
    }
}

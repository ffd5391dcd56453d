//! Reads the cases of one kind from its file and the numbered files that continue it.

use std::path::{Path, PathBuf};

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
struct File<C> {
    kind: String,
    cases: Vec<C>,
}

/// All cases of `crane/<name>`. Panics when there is no file, a file of another kind, or no case.
pub(crate) fn load<C: DeserializeOwned>(name: &str) -> Vec<C> {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors");
    let folder = PathBuf::from(std::env::var_os("PLIMSOLL_VECTORS").unwrap_or_else(|| shipped.into())).join("crane");
    let mut cases = read(&folder.join(format!("{name}.json")), name);
    let continued = (2..).map(|number| folder.join(format!("{name}_{number}.json"))).take_while(|path| path.exists());
    continued.for_each(|path| cases.extend(read(&path, name)));
    cases
}

fn read<C: DeserializeOwned>(path: &Path, name: &str) -> Vec<C> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file: File<C> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(file.kind, format!("crane/{name}"), "{}", path.display());
    assert!(!file.cases.is_empty(), "{} has no cases", path.display());
    file.cases
}

/// A double in JSON: a number, or a text for what JSON has no number for.
pub(crate) fn double<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Text(String),
    }
    match Written::deserialize(deserializer)? {
        Written::Number(number) => Ok(number),
        Written::Text(text) => text.parse().map_err(D::Error::custom),
    }
}

/// A double in a list.
#[derive(Clone, Copy, Deserialize)]
pub(crate) struct Double(#[serde(deserialize_with = "double")] pub(crate) f64);

/// Whether two numbers are the same but for rounding: within a share of the larger, at least of one.
pub(crate) fn is_close(found: f64, expected: f64, tolerance: f64) -> bool {
    let is_number = found.is_finite() && expected.is_finite();
    let same = found.total_cmp(&expected).is_eq() || found.is_nan() && expected.is_nan();
    same || is_number && (found - expected).abs() <= tolerance * expected.abs().max(1.0)
}

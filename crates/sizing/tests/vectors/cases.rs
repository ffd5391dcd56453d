//! Reads the cases of one kind from its file and the numbered files that continue it.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
struct File<C> {
    kind: String,
    cases: Vec<C>,
}

/// All cases of `vpa/<name>`. Panics when there is no file, a file of another kind, no case, or a gap in the numbers.
pub(crate) fn load<C: DeserializeOwned>(name: &str) -> Vec<C> {
    load_of("vpa", name)
}

/// All cases of `<area>/<name>`.
pub(crate) fn load_of<C: DeserializeOwned>(area: &str, name: &str) -> Vec<C> {
    let folder = folder(area);
    let kind = format!("{area}/{name}");
    let mut cases = read::<C>(&folder, name, &kind);
    for number in 2.. {
        let continued = format!("{name}_{number}");
        if !folder.join(format!("{continued}.json")).exists() {
            let next = format!("{name}_{}.json", number + 1);
            assert!(!folder.join(&next).exists(), "{next} continues a file that is missing");
            break;
        }
        cases.extend(read::<C>(&folder, &continued, &kind));
    }
    cases
}

fn read<C: DeserializeOwned>(folder: &std::path::Path, file: &str, kind: &str) -> Vec<C> {
    let path = folder.join(format!("{file}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file: File<C> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(file.kind, kind, "{}", path.display());
    assert!(!file.cases.is_empty(), "{} has no cases", path.display());
    file.cases
}

fn folder(area: &str) -> PathBuf {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors");
    PathBuf::from(std::env::var_os("PLIMSOLL_VECTORS").unwrap_or_else(|| shipped.into())).join(area)
}

/// A double in JSON: a number, or a text for what JSON has no number for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Double(pub(crate) f64);

impl<'de> Deserialize<'de> for Double {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self(number)),
            Written::Text(text) => text.parse().map(Self).map_err(serde::de::Error::custom),
        }
    }
}

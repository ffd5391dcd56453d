//! Reads the cases that were recorded by running upstream's programs.
//!
//! The recordings are in `tests/vectors` of the repository; `PLIMSOLL_VECTORS` names another folder
//! of the same form. A kind such as `vpa/limits` is the file `vpa/limits.json` and the numbered
//! files that continue it, `vpa/limits_2.json` and so on.

mod double;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use double::{Double, double};

#[derive(Deserialize)]
struct File<C> {
    kind: String,
    cases: Vec<C>,
}

/// All cases of a kind.
///
/// # Panics
///
/// When there is no file, a file of another kind, no case in a file, or a gap in the numbers.
pub fn load<C: DeserializeOwned>(kind: &str) -> Vec<C> {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors");
    let folder = std::env::var_os("PLIMSOLL_VECTORS").unwrap_or_else(|| shipped.into());
    load_from(&PathBuf::from(folder), kind)
}

fn load_from<C: DeserializeOwned>(folder: &Path, kind: &str) -> Vec<C> {
    let mut cases = read::<C>(&folder.join(format!("{kind}.json")), kind);
    for number in 2.. {
        let continued = folder.join(format!("{kind}_{number}.json"));
        if !continued.exists() {
            let next = format!("{kind}_{}.json", number + 1);
            assert!(
                !folder.join(&next).exists(),
                "{next} continues a file that is missing"
            );
            break;
        }
        cases.extend(read::<C>(&continued, kind));
    }
    cases
}

fn read<C: DeserializeOwned>(path: &Path, kind: &str) -> Vec<C> {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file: File<C> =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(file.kind, kind, "{}", path.display());
    assert!(!file.cases.is_empty(), "{} has no cases", path.display());
    file.cases
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(files: &[(&str, &str)]) -> std::thread::Result<Vec<u32>> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        std::panic::catch_unwind(|| load_from(folder.path(), "kind"))
    }

    #[test]
    fn a_kind_goes_on_in_numbered_files() {
        let first = ("kind.json", r#"{"kind": "kind", "cases": [1, 2]}"#);
        let second = ("kind_2.json", r#"{"kind": "kind", "cases": [3]}"#);
        assert_eq!(loaded(&[first, second]).unwrap(), [1, 2, 3]);
    }

    #[test]
    fn what_is_missing_empty_or_of_another_kind_is_noticed() {
        let first = ("kind.json", r#"{"kind": "kind", "cases": [1]}"#);
        assert!(loaded(&[]).is_err());
        assert!(loaded(&[first, ("kind_3.json", r#"{"kind": "kind", "cases": [3]}"#)]).is_err());
        assert!(loaded(&[first, ("kind_2.json", r#"{"kind": "kind", "cases": []}"#)]).is_err());
        assert!(loaded(&[("kind.json", r#"{"kind": "other", "cases": [1]}"#)]).is_err());
    }
}

//! Reads the cases that were recorded by running upstream's programs.
//!
//! The recordings are in `tests/vectors` of the repository; `PLIMSOLL_VECTORS` names another folder
//! of the same form. A kind such as `vpa/limits` is the file `vpa/limits.json` and the numbered
//! files that continue it, `vpa/limits_2.json` and so on.

mod double;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use double::{Double, double};

/// The elements of a JSON list; none of another value.
pub fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A value that may be missing, which is the default then.
///
/// # Panics
///
/// On a value of another shape.
pub fn or_default<T: DeserializeOwned + Default>(value: &Value) -> T {
    let read = Option::<T>::deserialize(value);
    let read = read.unwrap_or_else(|error| panic!("{value}: {error}"));
    read.unwrap_or_default()
}

#[derive(Deserialize)]
struct File<C> {
    kind: String,
    cases: Vec<C>,
}

/// Passes every case of a kind with its index to `check`, which panics when the case differs.
/// Reports all cases that differ, not only the first. Returns the number of cases.
///
/// A kind that is missing in the folder that `PLIMSOLL_VECTORS` names is skipped, with a line on
/// standard error.
///
/// # Panics
///
/// After the last case when one differs, and as [`load`].
pub fn each_case<C: DeserializeOwned>(kind: &str, check: impl FnMut(usize, C)) -> usize {
    let folder = folder();
    if std::env::var_os("PLIMSOLL_VECTORS").is_some() && is_missing(&folder, kind) {
        // Not by eprintln!: the test harness captures the output of tests that pass.
        let _ = writeln!(
            std::io::stderr(),
            "skipping {kind}: {} has no {kind}.json",
            folder.display()
        );
        return 0;
    }
    each(kind, load_from(&folder, kind), check)
}

/// The same for a kind whose cases are lists: `check` gets every row of every list.
///
/// # Panics
///
/// As [`each_case`].
pub fn each_row<R: DeserializeOwned>(kind: &str, mut check: impl FnMut(usize, R)) -> usize {
    let mut index = 0;
    each_case(kind, |_, rows: Vec<R>| {
        let first = index;
        index += rows.len();
        each(kind, rows, |row, content| check(first + row, content));
    });
    index
}

fn each<C>(kind: &str, cases: Vec<C>, mut check: impl FnMut(usize, C)) -> usize {
    let count = cases.len();
    let differ = |(index, case)| {
        catch_unwind(AssertUnwindSafe(|| check(index, case)))
            .is_err()
            .then_some(index)
    };
    let differing: Vec<usize> = cases.into_iter().enumerate().filter_map(differ).collect();
    assert!(
        differing.is_empty(),
        "{} of {count} cases of {kind} differ: {differing:?}",
        differing.len()
    );
    count
}

/// All cases of a kind.
///
/// # Panics
///
/// When there is no file, a file of another kind, no case in a file, or a gap in the numbers.
pub fn load<C: DeserializeOwned>(kind: &str) -> Vec<C> {
    load_from(&folder(), kind)
}

fn folder() -> PathBuf {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors");
    std::env::var_os("PLIMSOLL_VECTORS")
        .unwrap_or_else(|| shipped.into())
        .into()
}

fn is_missing(folder: &Path, kind: &str) -> bool {
    !folder.join(format!("{kind}.json")).exists()
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
    fn all_differing_cases_are_reported() {
        let mut seen = Vec::new();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            each("kind", vec!["a", "b", "c", "d"], |index, case| {
                seen.push(case);
                assert!(!["b", "d"].contains(&case), "case {index}");
            })
        }));
        let message = outcome.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(*message, "2 of 4 cases of kind differ: [1, 3]");
        assert_eq!(seen, ["a", "b", "c", "d"]);
        assert_eq!(each("kind", vec![1, 2], |_, _| {}), 2);
    }

    #[test]
    fn what_is_missing_empty_or_of_another_kind_is_noticed() {
        let first = ("kind.json", r#"{"kind": "kind", "cases": [1]}"#);
        let gap = ("kind_3.json", r#"{"kind": "kind", "cases": [3]}"#);
        let empty = ("kind_2.json", r#"{"kind": "kind", "cases": []}"#);
        let other = ("kind.json", r#"{"kind": "other", "cases": [1]}"#);
        for (files, expected) in [
            (vec![], "kind.json: No such file"),
            (
                vec![first, gap],
                "kind_3.json continues a file that is missing",
            ),
            (vec![first, empty], "kind_2.json has no cases"),
            (vec![other], "right: \"kind\""),
        ] {
            let panic = loaded(&files).unwrap_err().downcast::<String>().unwrap();
            assert!(panic.contains(expected), "{panic} instead of {expected}");
        }
    }
}

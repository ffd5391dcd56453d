//! Reading the recordings: every file of a kind, in parts.

use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;

#[derive(Deserialize)]
struct File<C> {
    kind: String,
    cases: Vec<C>,
}

/// The cases of a kind such as `hpa/replicas`: of `replicas.json`, `replicas_2.json` and so on.
pub(crate) fn load<C: DeserializeOwned>(kind: &str) -> Vec<C> {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors");
    let folder = PathBuf::from(std::env::var_os("PLIMSOLL_VECTORS").unwrap_or_else(|| shipped.into()));
    let parts = (1..).map(|part| match part {
        1 => folder.join(format!("{kind}.json")),
        part => folder.join(format!("{kind}_{part}.json")),
    });
    let mut cases = Vec::new();
    for path in parts.take_while(|path| path.exists()) {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file: File<C> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(file.kind, kind, "{}", path.display());
        cases.extend(file.cases);
    }
    assert!(!cases.is_empty(), "{kind} has no cases in {}", folder.display());
    cases
}

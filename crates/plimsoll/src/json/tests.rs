//! Objects of tests.

use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) fn parse<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("an object")
}

/// Expects texts without control characters, among them the hostile one, in the output of a document.
#[track_caller]
pub(crate) fn check_plain(document: &crate::output::Document) {
    let cells = document.tables.iter().flat_map(|table| &table.rows);
    let cells = cells.flat_map(|row| &row.cells).chain(&document.notes);
    let data = document.data.to_string();
    let mut texts = cells.chain([&data]);
    assert!(data.contains("[31mb"), "{data}");
    assert_eq!(texts.find(|text| text.contains(char::is_control)), None);
    // JSON writes most control characters as an escape.
    assert!(!data.contains("\\u00") && !data.contains("\\n"), "{data}");
}

//! Stored history of a sizing method other than the VPA's: an annotation of the container's
//! checkpoint, `plimsoll.dev/sizing-history`.
//!
//! The annotation is written together with the status, in one request. Upstream's recommender reads
//! the spec and the status, and replaces the status alone, so that the annotation stays as it was.

use api::checkpoint::SIZING_HISTORY;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, TestOperation};
use serde_json::json;
use sizing::{MethodHistoryError, StoredMethodHistory};
use thiserror::Error;
use view::Checkpoint;

/// Maximum length of the annotation in bytes. All annotations of an object have at most 256 KiB.
pub const MAX_BYTES: usize = 224 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoredHistoryError {
    #[error("the annotation {SIZING_HISTORY} has {0} bytes, above the maximum of {MAX_BYTES}")]
    TooLong(usize),
    #[error("the annotation {SIZING_HISTORY} is no history: {0}")]
    Json(String),
    #[error("the annotation {SIZING_HISTORY} has a history that ends in the future")]
    Future,
    /// No samples lead to this history, or it is one of another method.
    #[error("the annotation {SIZING_HISTORY} cannot be used: {0}")]
    History(#[from] MethodHistoryError),
}

/// Parses the annotation.
pub fn decode(text: &str) -> Result<StoredMethodHistory, StoredHistoryError> {
    if text.len() > MAX_BYTES {
        return Err(StoredHistoryError::TooLong(text.len()));
    }
    serde_json::from_str(text).map_err(|error| StoredHistoryError::Json(error.to_string()))
}

/// The text of the annotation for a history. `Err` with the length if that is above the maximum.
pub fn encode(history: &StoredMethodHistory) -> Result<String, usize> {
    let text = serde_json::to_string(history).unwrap_or_default();
    if text.len() > MAX_BYTES {
        return Err(text.len());
    }
    Ok(text)
}

/// Whether the object has this text. Without one its annotation stays: an invalid setting, an older
/// version of the recommender or an object that is made again must not delete what cannot be
/// measured again.
pub fn is_stored(history: Option<&str>, object: &Checkpoint) -> bool {
    history.is_none_or(|text| object.sizing_history.as_deref() == Some(text))
}

/// The operations that bring the text into an object. Annotations of others stay: if the object had
/// none, the operations fail when it has changed since.
pub fn operations(history: Option<&str>, object: &Checkpoint) -> Vec<PatchOperation> {
    let path = |parts: &[&str]| PointerBuf::from_tokens(["metadata"].iter().chain(parts).copied());
    let Some(text) = history.filter(|_| !is_stored(history, object)) else {
        return Vec::new();
    };
    if object.is_annotated {
        let (path, value) = (path(&["annotations", SIZING_HISTORY]), text.into());
        return vec![PatchOperation::Add(AddOperation { path, value })];
    }
    vec![
        PatchOperation::Test(TestOperation {
            path: path(&["resourceVersion"]),
            value: object.resource_version.as_str().into(),
        }),
        PatchOperation::Add(AddOperation {
            path: path(&["annotations"]),
            value: json!({SIZING_HISTORY: text}),
        }),
    ]
}

#[cfg(test)]
mod tests {
    use json_patch::Patch;
    use serde_json::Value;

    use super::*;
    use crate::fixture;

    /// Writes the content into an object with these annotations.
    fn check(annotations: &Value, content: Option<&str>, expected: &Value) {
        let mut object = fixture::checkpoint("a", "b", None);
        object.is_annotated = annotations.is_object();
        object.sizing_history = annotations[SIZING_HISTORY].as_str().map(Into::into);
        let mut json = json!({"metadata": {"resourceVersion": "1", "annotations": annotations}});
        let patch = Patch(operations(content, &object));
        json_patch::patch(&mut json, &patch).expect("a patch");
        assert_eq!(json["metadata"]["annotations"], *expected, "{content:?}");
        let is_changed = !patch.0.is_empty();
        assert_eq!(
            is_stored(content, &object),
            !is_changed,
            "{annotations} {content:?}"
        );
    }

    #[test]
    fn the_annotation_is_written_and_left() {
        let (none, other) = (json!(null), json!({"team": "shop"}));
        let own = json!({SIZING_HISTORY: "x"});
        let both = json!({"team": "shop", SIZING_HISTORY: "x"});
        for (annotations, content, expected) in [
            (&none, None, &none),
            (&none, Some("x"), &own),
            (&other, Some("x"), &both),
            (&both, Some("x"), &both),
            (
                &both,
                Some("y"),
                &json!({"team": "shop", SIZING_HISTORY: "y"}),
            ),
            (&both, None, &both),
        ] {
            check(annotations, content, expected);
        }
    }

    #[test]
    fn annotations_that_were_added_since_are_not_overwritten() {
        let object = fixture::checkpoint("a", "b", None);
        let mut json = json!({"metadata": {"resourceVersion": "2", "annotations": {"a": "b"}}});
        let patch = Patch(operations(Some("x"), &object));
        assert!(json_patch::patch(&mut json, &patch).is_err());
    }

    #[test]
    fn what_is_no_history_is_refused_with_the_reason() {
        let long = "x".repeat(MAX_BYTES + 1);
        assert_eq!(
            decode(&long),
            Err(StoredHistoryError::TooLong(MAX_BYTES + 1))
        );
        let deep = "[".repeat(MAX_BYTES);
        for text in ["", "{}", "null", "[1]", "\u{0}", "{\"version\":1}", &deep] {
            let error = decode(text).expect_err("no history").to_string();
            assert!(error.contains("plimsoll.dev/sizing-history"), "{error}");
        }
    }
}

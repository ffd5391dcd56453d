//! JSON patches for writing objects.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, TestOperation};
use serde::Serialize;

pub(crate) fn status_path() -> PointerBuf {
    PointerBuf::from_tokens(["status"])
}

/// Patch that replaces the status.
pub fn put_status(status: &impl Serialize) -> Result<Patch, serde_json::Error> {
    let value = serde_json::to_value(status)?;
    Ok(Patch(vec![PatchOperation::Add(AddOperation {
        path: status_path(),
        value,
    })]))
}

/// Prepends a test of the UID to a patch, so that a recreated object is not changed.
pub fn guarded(uid: &str, patch: Patch) -> Patch {
    let test = TestOperation {
        path: PointerBuf::from_tokens(["metadata", "uid"]),
        value: uid.into(),
    };
    Patch(
        std::iter::once(PatchOperation::Test(test))
            .chain(patch.0)
            .collect(),
    )
}

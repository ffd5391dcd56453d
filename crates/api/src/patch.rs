//! The JSON patches that write objects.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, TestOperation};
use serde::Serialize;

/// `/status`
pub(crate) fn status_path() -> PointerBuf {
    PointerBuf::from_tokens(["status"])
}

/// The patch that puts `status` in place of whatever is there.
pub fn put_status(status: &impl Serialize) -> Result<Patch, serde_json::Error> {
    let value = serde_json::to_value(status)?;
    Ok(Patch(vec![PatchOperation::Add(AddOperation {
        path: status_path(),
        value,
    })]))
}

/// The patch, preceded by a test that the object is still the one with this unique identifier: one
/// that was deleted and made again in the meantime is not written to.
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

//! Where the JSON patches of both objects write.

use json_patch::jsonptr::PointerBuf;

/// `/status`
pub(crate) fn status_path() -> PointerBuf {
    PointerBuf::from_tokens(["status"])
}

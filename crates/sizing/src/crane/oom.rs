//! Protection after an OOM kill: for seven days memory is at least the killed container's request
//! times a factor, and at least 100 MiB above it.
//!
//! Source: `pkg/recommendation/recommender/resource/recommend.go` (`MemoryOOMProtection`). Seven
//! days are fixed there as well.

use model::Memory;

use crate::amount;
use crate::instant::DAY_NS;

/// Time for which an OOM kill counts.
pub(super) const PROTECTION_NS: i64 = 7 * DAY_NS;

const MIN_BUMP_UP_BYTES: i64 = 100 << 20;

/// Memory needed by a container that was OOM-killed with this request.
pub fn protected_memory(request: Memory, ratio: f64) -> Memory {
    let more = request.bytes().saturating_add(MIN_BUMP_UP_BYTES);
    Memory::from_bytes(more.max(amount::scale(request.bytes(), ratio)))
}

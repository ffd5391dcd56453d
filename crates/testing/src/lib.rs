//! For tests only: waiting for a condition, malformed JSON, cases recorded from upstream's programs,
//! and figures of benchmarks.

#[cfg(feature = "eventually")]
mod eventually;
pub mod malformed;
pub mod measured;
pub mod vectors;

#[cfg(feature = "eventually")]
pub use eventually::{Pace, eventually};

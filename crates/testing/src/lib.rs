//! For tests only: waiting for a condition, malformed JSON, and cases recorded from upstream's
//! programs.

#[cfg(feature = "eventually")]
mod eventually;
pub mod malformed;
pub mod vectors;

#[cfg(feature = "eventually")]
pub use eventually::{Pace, eventually};

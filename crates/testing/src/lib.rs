//! For tests only: waiting for a condition, and cases recorded from upstream's programs.

#[cfg(feature = "eventually")]
mod eventually;
pub mod vectors;

#[cfg(feature = "eventually")]
pub use eventually::{Pace, eventually};

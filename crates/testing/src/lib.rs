//! For tests only: waiting for a condition, and cases recorded from upstream's programs.

mod eventually;
pub mod vectors;

pub use eventually::{Pace, eventually};

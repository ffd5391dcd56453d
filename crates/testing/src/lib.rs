//! For tests only: waiting for a condition, malformed JSON, cases recorded from upstream's programs,
//! the native HPA, and figures of benchmarks.

#[cfg(feature = "api_server")]
mod api_server;
#[cfg(feature = "eventually")]
mod eventually;
pub mod hpa;
pub mod malformed;
pub mod measured;
pub mod vectors;

#[cfg(feature = "api_server")]
pub use api_server::{api_server, no_api_server, refusal};
#[cfg(feature = "eventually")]
pub use eventually::{Pace, eventually};

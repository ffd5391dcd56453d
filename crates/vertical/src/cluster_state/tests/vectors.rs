//! Comparison with inputs and outputs recorded by running upstream's Go programs: one test per kind
//! of recording.
//!
//! `testing::vectors` reads the recordings.

mod open_windows;
mod recommend;
mod zero_windows;

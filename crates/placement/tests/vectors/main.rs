//! Comparison with inputs and outputs recorded by running Trimaran.
//!
//! `testing::vectors` reads the recordings.

mod beta;
mod objects;
mod peaks;
mod scores;

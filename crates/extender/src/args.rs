//! Flags.

pub mod scheduler;

//! Tests of the whole router on a fixed clock.

mod fixture;
mod golden;

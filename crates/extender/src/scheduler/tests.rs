//! Tests of the whole router on a fixed clock.

mod fixture;
mod golden;
mod nodes;
mod placements;
mod pod_loads;
mod requests;
mod start;

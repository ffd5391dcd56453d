//! From an OOM kill to a new target, and to a pod with more memory; no kill is lost. In a binary of
//! its own, so that no other test runs at the same time. `make bench-latency` measures the times.

mod burst;
mod contention;
mod fixture;
mod latency;
mod pod_updated;
mod target_sources;

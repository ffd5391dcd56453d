//! Sources of usage: one module per source, each producing samples of containers or nodes.
//!
//! A failing source returns an error and no samples. A missing value is never a sample of zero.
//!
//! Query texts and the rules of prometheus-adapter are in the crate `promql`. `scaled_kinds` gives
//! access to workloads.

pub mod error_chain;
pub mod external_metrics;
pub mod load_watcher;
pub mod metrics_api;
pub mod node_metrics;
pub mod prometheus;
pub mod rules;
pub mod scaled_kinds;

pub use model::ContainerUsage;

#[cfg(test)]
mod tests;

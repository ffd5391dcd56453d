//! Sources of usage: one module per source, each producing samples of containers.
//!
//! A failing source returns an error and no samples. A missing value is never a sample of zero.
//!
//! | formula | file |
//! |---|---|
//! | Prometheus queries and metric names | `prometheus/query.rs`, `prometheus/names.rs` |
//! | metrics of a prometheus-adapter rule, their objects and queries | `rules/rule.rs`, `rules/association.rs`, `rules/matchers.rs` |
//! | query for a workload's history by a rule | `rules/rule/history.rs` |

pub mod causes;
pub mod external_metrics;
pub mod metrics_api;
pub mod prometheus;
pub mod rules;

use model::{ContainerRef, Sample};

/// Usage of one container at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerUsage {
    /// The container.
    pub container: ContainerRef,
    /// Usage sample.
    pub sample: Sample,
}

//! Where usage comes from: one module per source, each turning what it reads into samples of
//! containers.
//!
//! A source that fails says so and gives nothing. A value that is missing stays missing: it is
//! never a sample of zero.
//!
//! | formula | file |
//! |---|---|
//! | what is asked of Prometheus, under which names | `prometheus/query.rs`, `prometheus/names.rs` |
//! | which metrics a rule of prometheus-adapter makes, of which objects, and the query for their values | `rules/rule.rs`, `rules/association.rs`, `rules/matchers.rs` |
//! | how a rule asks for the history of a workload | `rules/rule/history.rs` |

pub mod causes;
pub mod external_metrics;
pub mod metrics_api;
pub mod prometheus;
pub mod rules;

use model::{ContainerRef, Sample};

/// What one container used at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerUsage {
    /// The container.
    pub container: ContainerRef,
    /// What it used.
    pub sample: Sample,
}

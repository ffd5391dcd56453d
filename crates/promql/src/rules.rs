//! Rule files of prometheus-adapter: the mapping from series of a `PromQL` store to metrics of
//! objects, and the queries for their values and history.
//!
//! | topic | file |
//! |---|---|
//! | fields of the file; errors with their paths | `rules/file.rs` |
//! | interpretation of a rule; its queries | `rules/rule.rs`, `rules/rule/history.rs`, `rules/template.rs`, `rules/matchers.rs` |
//! | names of series and metrics, both ways | `rules/series.rs`, `rules/metric_name.rs` |
//! | labels with names of objects | `rules/association.rs`, `rules/api_resources.rs` |
//!
//! Source: prometheus-adapter 0.12, `docs/` and `pkg/`.

mod api_resources;
mod association;
mod file;
mod matchers;
mod metric_name;
mod rule;
mod series;
mod template;

pub use api_resources::{ApiResource, ApiResources, GroupResource};
pub use association::{Association, Labels, ObjectLabels};
pub use file::RuleError;
pub use metric_name::Naming;
pub use rule::{Objects, Rule, RuleSet, Workload, errors};
pub use series::read_matchers;

/// Reasons for a missing query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The query would select nothing.
    #[error("the selector selects nothing")]
    Nothing,
    /// The request has no valid query.
    #[error("{0}")]
    Wrong(String),
}

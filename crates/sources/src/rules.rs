//! Rule files as prometheus-adapter has them: which series of a store that speaks `PromQL` are
//! metrics of which objects, and how their values and their history are asked for. Nothing here
//! asks anybody but for the resources of the cluster.
//!
//! | what | file |
//! |---|---|
//! | the file's fields; errors that name them | `rules/file.rs` |
//! | what a rule means; its queries | `rules/rule.rs`, `rules/rule/history.rs`, `rules/template.rs`, `rules/matchers.rs` |
//! | names of series and of metrics, both ways | `rules/series.rs`, `rules/name.rs` |
//! | labels that name objects | `rules/association.rs`, `rules/api_resources.rs` |
//!
//! Source: prometheus-adapter 0.12, `docs/` and `pkg/`.

mod api_resources;
mod association;
mod file;
mod matchers;
mod name;
mod rule;
mod series;
mod template;

pub use api_resources::{ApiResource, ApiResources, GroupResource};
pub use association::{Association, Labels, Place};
pub use file::RuleError;
pub use name::Naming;
pub use rule::{Objects, Rule, RuleSet, Workload};
pub use series::read_matchers;

/// Why a query cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It would ask for nothing.
    #[error("the selector selects nothing")]
    Nothing,
    /// What is asked for has no query, and why.
    #[error("{0}")]
    Wrong(String),
}

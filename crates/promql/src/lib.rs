//! Query texts for stores that understand `PromQL`. No I/O here: `sources` sends them.
//!
//! A text that contains names or expressions of a user is validated or confined to a namespace,
//! since one credential reads for all users.
//!
//! | formula | file |
//! |---|---|
//! | selectors and sums; usage of containers and workloads | `query.rs` |
//! | series and labels that stores have for usage | `usage_series.rs` |
//! | restriction of an expression to one namespace | `confine.rs` |
//! | restriction of all queries to one cluster | `matchers.rs` |
//! | several clusters in one store | `clusters.rs` |
//! | Prometheus durations | `duration.rs` |
//! | metrics of a prometheus-adapter rule, their objects and queries | `rules/rule.rs`, `rules/association.rs`, `rules/matchers.rs` |
//! | query for a workload's history by a rule | `rules/rule/history.rs` |

mod clusters;
mod confine;
mod duration;
mod matchers;
pub mod query;
pub mod rules;
mod usage_series;

pub use clusters::{CLUSTER_LABELS, Clusters};
pub use confine::{ConfineError, confine};
pub use duration::Step;
pub use matchers::Matchers;
pub use query::{
    Excess, NameError, is_label_name, is_metric_name, literal, matcher, sum, workload_usage,
};
pub use usage_series::{Layout, PodLabelSeries, PodLabelSettings, UsageSeries, UsageSettings};

//! The replicas of an EHPA's workload: the metrics of its HPA, observed and predicted, and why the
//! replicas do not change.

mod judge;
mod metrics;
mod reader;
#[cfg(test)]
mod tests;

pub(super) use judge::explain;
pub(super) use metrics::forecasts;
pub(crate) use metrics::{Forecast, hpa_metrics};
pub(super) use reader::{EhpaFacts, of_workload, read};

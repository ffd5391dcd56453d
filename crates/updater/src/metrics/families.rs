//! Constructors of the updater's metrics, and their labels.

use prometheus::{
    Error, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    register_int_counter_vec_with_registry, register_int_counter_with_registry,
    register_int_gauge_vec_with_registry, register_int_gauge_with_registry,
};

pub(super) const SIZE: [&str; 1] = ["vpa_size_log2"];
pub(super) const CLASS: [&str; 2] = ["vpa_size_log2", "update_mode"];
pub(super) const VPA: [&str; 3] = ["vpa_size_log2", "vpa_name", "vpa_namespace"];
pub(super) const REASON_VPA: [&str; 4] = ["vpa_size_log2", "reason", "vpa_name", "vpa_namespace"];
pub(super) const MODE_VPA: [&str; 4] =
    ["vpa_size_log2", "update_mode", "vpa_name", "vpa_namespace"];
pub(super) const REASON_MODE_VPA: [&str; 5] = [
    "vpa_size_log2",
    "update_mode",
    "reason",
    "vpa_name",
    "vpa_namespace",
];

fn options(name: &str, help: &str) -> Opts {
    Opts::new(format!("vpa_updater_{name}"), help)
}

/// Creates and registers metrics.
pub(super) struct Families<'a>(pub(super) &'a Registry);

impl Families<'_> {
    pub(super) fn number(&self, name: &str, help: &str) -> Result<IntGauge, Error> {
        register_int_gauge_with_registry!(options(name, help), self.0)
    }

    pub(super) fn count(&self, name: &str, help: &str) -> Result<IntCounter, Error> {
        register_int_counter_with_registry!(options(name, help), self.0)
    }

    pub(super) fn gauge(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntGaugeVec, Error> {
        register_int_gauge_vec_with_registry!(options(name, help), labels, self.0)
    }

    pub(super) fn counter(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntCounterVec, Error> {
        register_int_counter_vec_with_registry!(options(name, help), labels, self.0)
    }
}

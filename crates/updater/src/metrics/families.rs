//! Constructors of the updater's metrics, and their labels.

use prometheus::{
    Error, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, register_histogram_vec_with_registry, register_int_counter_vec_with_registry,
    register_int_counter_with_registry, register_int_gauge_vec_with_registry,
    register_int_gauge_with_registry,
};

const STEP_BUCKETS: [f64; 23] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0,
    90.0, 100.0, 120.0, 150.0, 240.0, 300.0,
];

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

    /// A histogram of the lengths of steps.
    pub(super) fn histogram(&self, name: &str, help: &str) -> Result<HistogramVec, Error> {
        let options = HistogramOpts::from(options(name, help)).buckets(STEP_BUCKETS.to_vec());
        register_histogram_vec_with_registry!(options, &["step"], self.0)
    }
}

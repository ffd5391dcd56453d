//! Gauges that are computed at every scrape.

use prometheus::core::{Collector, Desc};
use prometheus::{Gauge, Registry, proto::MetricFamily};

struct ComputedGauge<F> {
    gauge: Gauge,
    value: F,
}

/// Registers a gauge whose value is the result of a function.
pub(super) fn register(
    registry: &Registry,
    name: &str,
    help: &str,
    value: impl Fn() -> f64 + Send + Sync + 'static,
) -> Result<(), prometheus::Error> {
    let gauge = Gauge::new(name, help)?;
    registry.register(Box::new(ComputedGauge { gauge, value }))
}

impl<F: Fn() -> f64 + Send + Sync> Collector for ComputedGauge<F> {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.gauge.set((self.value)());
        self.gauge.collect()
    }
}

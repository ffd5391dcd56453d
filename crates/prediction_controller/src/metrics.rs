//! Metrics of predictions.

mod accuracy;

use horizontal::predictions::PredictionSet;
use prometheus::{
    Histogram, HistogramTimer, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    register_histogram_with_registry, register_int_counter_vec_with_registry,
    register_int_gauge_vec_with_registry, register_int_gauge_with_registry,
};

use accuracy::AccuracyMetrics;

/// Two weeks take some milliseconds, Crane's DSP predictor takes longer.
const BUCKETS: [f64; 10] = [
    0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0,
];
const METHODS: [&str; 4] = ["peak", "own", "dsp", "percentile"];

/// Metrics of predictions. Clones share them.
#[derive(Debug, Clone)]
pub struct ForecastMetrics {
    series: IntGaugeVec,
    bytes: IntGauge,
    reads: IntCounterVec,
    read_error: IntGauge,
    refused: IntGauge,
    update: Histogram,
    ready: IntGaugeVec,
    writes: IntCounterVec,
    accuracy: AccuracyMetrics,
}

impl ForecastMetrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Self {
            series: register_int_gauge_vec_with_registry!(
                "plimsoll_forecast_series",
                "Series kept for forecasts by method.",
                &["method"],
                registry,
            )?,
            bytes: register_int_gauge_with_registry!(
                "plimsoll_forecast_series_bytes",
                "Memory of the series kept for forecasts.",
                registry,
            )?,
            reads: register_int_counter_vec_with_registry!(
                "plimsoll_forecast_reads_total",
                "Prometheus queries for the history of a metric by result.",
                &["result"],
                registry,
            )?,
            read_error: register_int_gauge_with_registry!(
                "plimsoll_forecast_unreadable_metrics",
                "Predicted metrics whose history is currently unreadable.",
                registry,
            )?,
            refused: register_int_gauge_with_registry!(
                "plimsoll_forecast_refused_metrics",
                "Predicted metrics without a forecast because of a memory limit.",
                registry,
            )?,
            update: register_histogram_with_registry!(
                "plimsoll_forecast_update_seconds",
                "Time to append the samples of one metric and to forecast it.",
                BUCKETS.to_vec(),
                registry,
            )?,
            ready: register_int_gauge_vec_with_registry!(
                "plimsoll_forecast_metrics",
                "Predicted metrics by whether their whole window is forecast. 0 on a standby.",
                &["ready"],
                registry,
            )?,
            writes: register_int_counter_vec_with_registry!(
                "plimsoll_forecast_status_writes_total",
                "Writes of the status of predictions by result.",
                &["result"],
                registry,
            )?,
            accuracy: AccuracyMetrics::register(registry)?,
        };
        for result in ["succeeded", "failed"] {
            metrics.reads.with_label_values(&[result]);
            metrics.writes.with_label_values(&[result]);
        }
        for ready in ["true", "false"] {
            metrics.ready.with_label_values(&[ready]);
        }
        for method in METHODS {
            metrics.series.with_label_values(&[method]);
        }
        Ok(metrics)
    }

    /// Updates the metrics of kept series.
    pub(crate) fn kept(&self, predictions: &mut PredictionSet, refused: usize) {
        self.accuracy.set(predictions.accuracies());
        let (mut series, mut bytes, mut read_error) = ([0; METHODS.len()], 0, 0);
        for pipeline in predictions.pipelines() {
            if let Some(place) = METHODS
                .iter()
                .position(|method| *method == pipeline.method().name())
            {
                series[place] += pipeline.series();
            }
            bytes += pipeline.bytes();
            read_error += usize::from(pipeline.result().read_error.is_some());
        }
        for (method, count) in METHODS.iter().zip(series) {
            self.series.with_label_values(&[method]).set(number(count));
        }
        self.bytes.set(number(bytes));
        self.read_error.set(number(read_error));
        self.refused.set(number(refused));
    }

    /// Counts a query.
    pub(crate) fn read(&self, succeeded: bool) {
        self.reads.with_label_values(&[result(succeeded)]).inc();
    }

    /// Starts a timer that records when it is dropped.
    pub(crate) fn update_timer(&self) -> HistogramTimer {
        self.update.start_timer()
    }

    /// Counts a write of a status.
    pub(crate) fn written(&self, succeeded: bool) {
        self.writes.with_label_values(&[result(succeeded)]).inc();
    }

    /// Sets the number of metrics that are ready, and that are not.
    pub(crate) fn ready(&self, ready: usize, others: usize) {
        self.ready.with_label_values(&["true"]).set(number(ready));
        self.ready.with_label_values(&["false"]).set(number(others));
    }
}

fn result(succeeded: bool) -> &'static str {
    if succeeded { "succeeded" } else { "failed" }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

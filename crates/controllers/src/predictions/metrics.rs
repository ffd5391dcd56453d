//! Metrics of predictions.

mod accuracy;

use horizontal::predictions::PredictionSet;
use prometheus::{Histogram, HistogramTimer, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use runtime::metrics::count;

use accuracy::AccuracyMetrics;

/// Two weeks take some milliseconds, Crane's DSP predictor takes longer.
const BUCKETS: [f64; 10] = [
    0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0,
];
const METHODS: [&str; 4] = ["peak", "own", "dsp", "percentile"];

runtime::metrics! {
    struct Rows {
        series: IntGaugeVec { method: METHODS } = "plimsoll_forecast_series",
            "Series kept for forecasts by method.";
        bytes: IntGauge = "plimsoll_forecast_series_bytes",
            "Memory of the series kept for forecasts.";
        reads: IntCounterVec { result: ["succeeded", "failed"] } = "plimsoll_forecast_reads_total",
            "Prometheus queries for the history of a metric by result.";
        read_error: IntGauge = "plimsoll_forecast_unreadable_metrics",
            "Predicted metrics whose history is currently unreadable.";
        refused: IntGauge = "plimsoll_forecast_refused_metrics",
            "Predicted metrics without a forecast because of a memory limit.";
        update: Histogram [BUCKETS] = "plimsoll_forecast_update_seconds",
            "Time to append the samples of one metric and to forecast it.";
        ready: IntGaugeVec { ready: ["true", "false"] } = "plimsoll_forecast_metrics",
            "Predicted metrics by whether their whole window is forecast. 0 on a standby.";
        writes: IntCounterVec { result: ["succeeded", "failed"] }
            = "plimsoll_forecast_status_writes_total",
            "Writes of the status of predictions by result.";
    }
}

/// Metrics of predictions. Clones share them.
#[derive(Debug, Clone)]
pub struct ForecastMetrics {
    rows: Rows,
    accuracy: AccuracyMetrics,
}

impl ForecastMetrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            rows: Rows::register(registry)?,
            accuracy: AccuracyMetrics::register(registry)?,
        })
    }

    /// Updates the metrics of kept series.
    pub(crate) fn kept(&self, predictions: &mut PredictionSet, refused: usize) {
        self.accuracy.set(predictions.accuracies());
        let (mut series, mut bytes, mut read_error) = ([0; METHODS.len()], 0, 0);
        for pipeline in predictions.pipelines() {
            let name = pipeline.method().name();
            if let Some(place) = METHODS.iter().position(|method| *method == name) {
                series[place] += pipeline.series();
            }
            bytes += pipeline.bytes();
            read_error += usize::from(pipeline.result().read_error.is_some());
        }
        let rows = &self.rows;
        for (method, kept) in METHODS.iter().zip(series) {
            rows.series.with_label_values(&[method]).set(count(kept));
        }
        rows.bytes.set(count(bytes));
        rows.read_error.set(count(read_error));
        rows.refused.set(count(refused));
    }

    /// Counts a query.
    pub(crate) fn read(&self, succeeded: bool) {
        let reads = &self.rows.reads;
        reads.with_label_values(&[result(succeeded)]).inc();
    }

    /// Starts a timer that records when it is dropped.
    pub(crate) fn update_timer(&self) -> HistogramTimer {
        self.rows.update.start_timer()
    }

    /// Counts a write of a status.
    pub(crate) fn written(&self, succeeded: bool) {
        let writes = &self.rows.writes;
        writes.with_label_values(&[result(succeeded)]).inc();
    }

    /// Sets the number of metrics that are ready, and that are not.
    pub(crate) fn ready(&self, ready: usize, others: usize) {
        for (label, number) in [("true", ready), ("false", others)] {
            let gauge = self.rows.ready.with_label_values(&[label]);
            gauge.set(count(number));
        }
    }
}

fn result(succeeded: bool) -> &'static str {
    if succeeded { "succeeded" } else { "failed" }
}

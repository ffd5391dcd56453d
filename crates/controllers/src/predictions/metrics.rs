//! Metrics of predictions.

use std::collections::BTreeSet;
use std::sync::Arc;

use horizontal::predictions::{PeakAccuracy, PredictionSet, truncate};
use parking_lot::Mutex;
use prometheus::{
    GaugeVec, Histogram, HistogramTimer, IntCounterVec, IntGauge, IntGaugeVec, Registry,
};
use runtime::metrics::count;
use view::ObjectKey;

/// Maximum number of metrics with an accuracy, since users create predictions. Those that are set
/// aside come first.
const MAX_METRICS: usize = 1000;
/// Maximum length of an identifier in a label, in characters.
const MAX_IDENTIFIER: usize = 253;

/// Namespace, prediction and metric.
type MetricLabels = [String; 3];

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
        wape: GaugeVec { namespace, prediction, metric } = "plimsoll_forecast_wape",
            "Absolute errors of the forecast of a metric over the last day, divided by its values. At most 1000 metrics.";
        simple_wape: GaugeVec { namespace, prediction, metric } = "plimsoll_forecast_simple_wape",
            "The same of the simple method that was best on that day.";
        coverage: GaugeVec { namespace, prediction, metric } = "plimsoll_forecast_coverage",
            "Share of the windows of the last day whose peak was at most the published value.";
        set_aside: IntGauge = "plimsoll_forecast_set_aside_metrics",
            "Predicted metrics whose forecast is replaced by a simple method, since it was worse for a day.";
    }
}

/// Metrics of predictions. Clones share them.
#[derive(Debug, Clone)]
pub struct ForecastMetrics {
    rows: Rows,
    /// Metrics with an accuracy.
    present: Arc<Mutex<BTreeSet<MetricLabels>>>,
}

impl ForecastMetrics {
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let (rows, present) = (Rows::register(registry)?, Arc::default());
        Ok(Self { rows, present })
    }

    pub(crate) fn kept(&self, predictions: &mut PredictionSet, refused: usize) {
        self.set_accuracies(predictions.accuracies());
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

    /// Sets the accuracy of all metrics over the last day, and removes that of others.
    fn set_accuracies<'a>(
        &self,
        accuracies: impl Iterator<Item = (&'a ObjectKey, &'a str, &'a PeakAccuracy)>,
    ) {
        let mut known: Vec<_> = accuracies.collect();
        let replaced = |accuracy: &PeakAccuracy| accuracy.set_aside.is_some();
        let set_aside = known.iter().filter(|(.., it)| replaced(it)).count();
        self.rows.set_aside.set(count(set_aside));
        known.sort_by_key(|(key, identifier, accuracy)| (!replaced(accuracy), *key, *identifier));
        let mut present = BTreeSet::new();
        for (key, identifier, accuracy) in known.into_iter().take(MAX_METRICS) {
            let labels = [
                key.namespace.clone(),
                key.name.clone(),
                truncate(identifier, MAX_IDENTIFIER),
            ];
            let values = [accuracy.wape, accuracy.simple_wape, accuracy.coverage];
            for (gauge, value) in self.accuracy_gauges().into_iter().zip(values) {
                gauge.with_label_values(&labels).set(value);
            }
            present.insert(labels);
        }
        let before = std::mem::replace(&mut *self.present.lock(), present.clone());
        for labels in before.difference(&present) {
            for gauge in self.accuracy_gauges() {
                // It was set before.
                let _ = gauge.remove_label_values(labels);
            }
        }
    }

    fn accuracy_gauges(&self) -> [&GaugeVec; 3] {
        [&self.rows.wape, &self.rows.simple_wape, &self.rows.coverage]
    }

    pub(crate) fn read(&self, succeeded: bool) {
        let reads = &self.rows.reads;
        reads.with_label_values(&[result(succeeded)]).inc();
    }

    /// Starts a timer that records when it is dropped.
    pub(crate) fn update_timer(&self) -> HistogramTimer {
        self.rows.update.start_timer()
    }

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

#[cfg(test)]
mod tests {
    use horizontal::predictions::{SetAside, SimpleMethod};

    use super::*;

    fn accuracy(wape: f64, is_replaced: bool) -> PeakAccuracy {
        let simple_method = SimpleMethod::Yesterday;
        let set_aside = SetAside {
            wape,
            simple_wape: 0.1,
            simple_method,
        };
        PeakAccuracy {
            wape,
            simple_wape: 0.1,
            simple_method,
            coverage: 0.9,
            set_aside: is_replaced.then_some(set_aside),
        }
    }

    fn check(
        metrics: &ForecastMetrics,
        all: &[(&str, PeakAccuracy)],
        registry: &Registry,
    ) -> String {
        let key = ObjectKey::new("shop", "ehpa-web");
        metrics.set_accuracies(all.iter().map(|(name, it)| (&key, *name, it)));
        prometheus::TextEncoder::new()
            .encode_to_string(&registry.gather())
            .expect("text")
    }

    #[test]
    fn accuracies_end_with_their_metrics() {
        let registry = Registry::new();
        let metrics = ForecastMetrics::register(&registry).expect("new");
        let labels = |metric: &str| {
            format!("{{metric=\"{metric}\",namespace=\"shop\",prediction=\"ehpa-web\"}}")
        };
        let all = [("cpu", accuracy(0.3, true)), ("rps", accuracy(0.05, false))];
        let text = check(&metrics, &all, &registry);
        for line in [
            format!("plimsoll_forecast_wape{} 0.3\n", labels("cpu")),
            format!("plimsoll_forecast_simple_wape{} 0.1\n", labels("cpu")),
            format!("plimsoll_forecast_coverage{} 0.9\n", labels("rps")),
            "plimsoll_forecast_set_aside_metrics 1\n".to_owned(),
        ] {
            assert!(text.contains(&line), "{line} in {text}");
        }
        let text = check(&metrics, &all[1..], &registry);
        assert!(
            !text.contains(&labels("cpu")) && text.contains(&labels("rps")),
            "{text}"
        );
        assert!(
            text.contains("plimsoll_forecast_set_aside_metrics 0\n"),
            "{text}"
        );
    }

    #[test]
    fn the_number_of_series_and_their_labels_are_limited() {
        let registry = Registry::new();
        let metrics = ForecastMetrics::register(&registry).expect("new");
        let names: Vec<_> = (0..MAX_METRICS)
            .map(|number| format!("a-{number}"))
            .collect();
        let long = "z".repeat(1000);
        let mut all: Vec<_> = names
            .iter()
            .map(|name| (name.as_str(), accuracy(0.1, false)))
            .collect();
        all.push((&long, accuracy(0.3, true)));
        let text = check(&metrics, &all, &registry);
        let count = text.matches("plimsoll_forecast_wape{").count();
        assert_eq!(count, MAX_METRICS);
        let cut = format!("metric=\"{}\"", "z".repeat(MAX_IDENTIFIER));
        assert!(text.contains(&cut), "one that is set aside is always shown");
    }
}

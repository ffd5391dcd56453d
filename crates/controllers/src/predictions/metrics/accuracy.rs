//! Accuracy of predicted metrics over the last day. The number of series is limited, since users
//! create predictions.

use std::collections::BTreeSet;
use std::sync::Arc;

use horizontal::predictions::{PeakAccuracy, truncate};
use parking_lot::Mutex;
use prometheus::{GaugeVec, IntGauge, Registry};
use runtime::metrics::count;
use view::ObjectKey;

/// Maximum number of metrics with their own series. Those that are set aside come first.
const MAX_METRICS: usize = 1000;
/// Maximum length of an identifier in a label, in characters.
const MAX_IDENTIFIER: usize = 253;

/// Namespace, prediction and metric.
type MetricLabels = [String; 3];

runtime::metrics! {
    struct Rows {
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

/// Gauges of the accuracy. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct AccuracyMetrics {
    rows: Rows,
    present: Arc<Mutex<BTreeSet<MetricLabels>>>,
}

impl AccuracyMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let (rows, present) = (Rows::register(registry)?, Arc::default());
        Ok(Self { rows, present })
    }

    /// Sets the accuracy of all metrics, and removes that of others.
    pub(super) fn set<'a>(
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
            for (gauge, value) in self.gauges().into_iter().zip(values) {
                gauge.with_label_values(&labels).set(value);
            }
            present.insert(labels);
        }
        let before = std::mem::replace(&mut *self.present.lock(), present.clone());
        for labels in before.difference(&present) {
            for gauge in self.gauges() {
                // It was set before.
                let _ = gauge.remove_label_values(labels);
            }
        }
    }

    fn gauges(&self) -> [&GaugeVec; 3] {
        [&self.rows.wape, &self.rows.simple_wape, &self.rows.coverage]
    }
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
        metrics: &AccuracyMetrics,
        all: &[(&str, PeakAccuracy)],
        registry: &Registry,
    ) -> String {
        let key = ObjectKey::new("shop", "ehpa-web");
        metrics.set(all.iter().map(|(name, it)| (&key, *name, it)));
        prometheus::TextEncoder::new()
            .encode_to_string(&registry.gather())
            .expect("text")
    }

    #[test]
    fn accuracies_end_with_their_metrics() {
        let registry = Registry::new();
        let metrics = AccuracyMetrics::register(&registry).expect("new");
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
        let metrics = AccuracyMetrics::register(&registry).expect("new");
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

//! Gauges with one label whose series are replaced together, so that a scrape never mixes two
//! states and never shows a series that is gone.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts, Registry};

/// Value of the label, and one value for each gauge.
type Row<const N: usize> = (String, [f64; N]);

/// The gauges. Clones share them.
#[derive(Debug, Clone)]
pub struct GaugeTable<const N: usize> {
    gauges: [GaugeVec; N],
    rows: Arc<Mutex<Vec<Row<N>>>>,
}

impl<const N: usize> GaugeTable<N> {
    /// Adds gauges with these names and HELP texts, without series, to a registry.
    pub fn register(
        registry: &Registry,
        label: &str,
        gauges: [(&str, &str); N],
    ) -> Result<Self, prometheus::Error> {
        let mut vectors = Vec::with_capacity(N);
        for (name, help) in gauges {
            vectors.push(GaugeVec::new(Opts::new(name, help), &[label])?);
        }
        let gauges = vectors
            .try_into()
            .map_err(|_| prometheus::Error::Msg("one gauge for each name".to_owned()))?;
        let table = Self {
            gauges,
            rows: Arc::default(),
        };
        registry.register(Box::new(table.clone()))?;
        Ok(table)
    }

    /// Replaces all series: values of the label, each with one value for each gauge.
    pub fn set(&self, rows: impl IntoIterator<Item = (String, [f64; N])>) {
        *self.rows.lock() = rows.into_iter().collect();
    }
}

impl<const N: usize> Collector for GaugeTable<N> {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges.iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Held to the end, so that two readers do not mix.
        let rows = self.rows.lock();
        for gauge in &self.gauges {
            gauge.reset();
        }
        for (label, values) in &*rows {
            for (gauge, value) in self.gauges.iter().zip(values) {
                gauge.with_label_values(&[label.as_str()]).set(*value);
            }
        }
        self.gauges.iter().flat_map(Collector::collect).collect()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn only_the_last_rows_are_shown() {
        let registry = Registry::new();
        let gauges = [("cpu", "Cores."), ("memory", "Bytes.")];
        let table = GaugeTable::register(&registry, "group", gauges).expect("valid names");
        let shown = || {
            let text = TextEncoder::new().encode_to_string(&registry.gather());
            let text = text.expect("text");
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(shown(), Vec::<String>::new());
        table.set([("a".to_owned(), [1.5, 2.0]), (String::new(), [3.0, 4.0])]);
        let expected = [
            "cpu{group=\"\"} 3",
            "cpu{group=\"a\"} 1.5",
            "memory{group=\"\"} 4",
            "memory{group=\"a\"} 2",
        ];
        assert_eq!(shown(), expected);
        table.set([("b".to_owned(), [5.0, 6.0])]);
        assert_eq!(shown(), ["cpu{group=\"b\"} 5", "memory{group=\"b\"} 6"]);
        table.set([]);
        assert_eq!(shown(), Vec::<String>::new());
    }
}

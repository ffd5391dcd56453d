//! Metrics as rows of a table: field, kind, labels, buckets, name and HELP text.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus::core::{
    Atomic, Collector, Desc, GenericCounter, GenericCounterVec, GenericGauge, GenericGaugeVec,
    Number as _,
};
use prometheus::proto::MetricFamily;
use prometheus::{Error, Histogram, HistogramOpts, HistogramVec, Opts, Registry};

/// Declares a struct of metrics from rows.
///
/// Where all labels of a row have values, the series of all their combinations exist from the start
/// and after a `reset`: a rate needs a first value.
///
/// ```
/// use prometheus::{Histogram, IntCounterVec};
///
/// runtime::metrics! {
///     /// Metrics of requests. Clones share them.
///     pub struct RequestMetrics {
///         requests: IntCounterVec { verb, result: ["success", "error"] } = "requests_total",
///             "Requests by verb and result.";
///         pub latency: Histogram [[0.1, 1.0]] = "request_duration_seconds",
///             "Latency of requests in seconds.";
///     }
/// }
///
/// let registry = prometheus::Registry::new();
/// let metrics = RequestMetrics::register(&registry).expect("new names");
/// metrics.requests.with_label_values(&["get", "error"]).inc();
/// ```
#[macro_export]
macro_rules! metrics {
    (
        $(#[$attribute:meta])*
        $visible:vis struct $Name:ident $(($($parameter:ident: $Type:ty),*))? {
            $(
                $row_visible:vis $row:ident: $Kind:ident
                $({ $($label:ident $(: $values:expr)?),* $(,)? })?
                $([$buckets:expr])?
                = $name:expr, $help:literal;
            )*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone)]
        $visible struct $Name {
            $(#[doc = $help] $row_visible $row: $Kind,)*
        }

        impl $Name {
            /// Creates the metrics and adds them to a registry.
            $visible fn register(
                registry: &::prometheus::Registry
                $(, $($parameter: $Type),*)?
            ) -> Result<Self, ::prometheus::Error> {
                let metrics = Self::new($($($parameter),*)?)?;
                for collector in metrics.collectors() {
                    registry.register(collector)?;
                }
                Ok(metrics)
            }

            /// Creates the metrics, for collectors that update them at every scrape.
            $visible fn new($($($parameter: $Type),*)?) -> Result<Self, ::prometheus::Error> {
                let metrics = Self {
                    $($row: $crate::metrics::Metric::of(&$crate::metrics::Family {
                        name: $name.to_string(),
                        help: $help,
                        labels: &[$($(stringify!($label)),*)?],
                        buckets: &[$(&$buckets[..])?],
                    })?,)*
                };
                metrics.reset();
                Ok(metrics)
            }

            $visible fn reset(&self) {
                $(
                    $crate::metrics::Metric::clear(&self.$row);
                    $crate::metrics::start(&self.$row, &[$($(&[$(&$values[..])?]),*)?]);
                )*
            }

            $visible fn collectors(&self) -> Vec<Box<dyn ::prometheus::core::Collector>> {
                vec![$(Box::new(self.$row.clone())),*]
            }
        }
    };
}

/// A row without its field and kind.
#[derive(Debug)]
pub struct Family<'a> {
    pub name: String,
    pub help: &'static str,
    pub labels: &'a [&'a str],
    /// Limits of the buckets of a histogram, else none.
    pub buckets: &'a [&'a [f64]],
}

impl Family<'_> {
    fn opts(&self) -> Opts {
        Opts::new(self.name.as_str(), self.help)
    }

    fn histogram_opts(&self) -> HistogramOpts {
        HistogramOpts::new(self.name.as_str(), self.help).buckets(self.buckets.concat())
    }
}

pub trait Metric: Collector + Clone + Sized {
    fn of(family: &Family) -> Result<Self, Error>;
    /// Creates the series of these label values.
    fn touch(&self, _: &[&str]) {}
    /// Sets the metric to zero, or removes its series. Histograms stay.
    fn clear(&self) {}
}

impl<P: Atomic> Metric for GenericGauge<P> {
    fn of(family: &Family) -> Result<Self, Error> {
        Self::with_opts(family.opts())
    }

    fn clear(&self) {
        self.set(P::T::from_i64(0));
    }
}

impl<P: Atomic> Metric for GenericCounter<P> {
    fn of(family: &Family) -> Result<Self, Error> {
        Self::with_opts(family.opts())
    }

    fn clear(&self) {
        self.reset();
    }
}

macro_rules! with_labels {
    ($($Kind:ident),*) => {$(
        impl<P: Atomic> Metric for $Kind<P> {
            fn of(family: &Family) -> Result<Self, Error> {
                Self::new(family.opts(), family.labels)
            }

            fn touch(&self, values: &[&str]) {
                self.with_label_values(values);
            }

            fn clear(&self) {
                self.reset();
            }
        }
    )*};
}

with_labels!(GenericGaugeVec, GenericCounterVec);

impl Metric for Histogram {
    fn of(family: &Family) -> Result<Self, Error> {
        Self::with_opts(family.histogram_opts())
    }
}

impl Metric for HistogramVec {
    fn of(family: &Family) -> Result<Self, Error> {
        Self::new(family.histogram_opts(), family.labels)
    }

    fn touch(&self, values: &[&str]) {
        self.with_label_values(values);
    }
}

/// Creates the series of all combinations of label values: for each label all of its values, or
/// nothing if they are not known.
pub fn start(metric: &impl Metric, labels: &[&[&[&str]]]) {
    if labels.is_empty() {
        return;
    }
    let mut series: Vec<Vec<&str>> = vec![Vec::new()];
    for values in labels {
        let values = values.concat();
        let with = |labels: Vec<_>| {
            values
                .iter()
                .map(move |value| [&labels[..], &[*value]].concat())
        };
        series = series.into_iter().flat_map(with).collect();
    }
    for values in series {
        metric.touch(&values);
    }
}

/// A number as the value of a gauge.
pub fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Adds metrics to a registry that `update` sets at every scrape. No two scrapes mix their values.
pub fn register_on_scrape(
    registry: &Registry,
    collectors: Vec<Box<dyn Collector>>,
    update: impl FnMut() + Send + 'static,
) -> Result<(), Error> {
    let update = Mutex::new(update);
    registry.register(Box::new(OnScrape { collectors, update }))
}

struct OnScrape<F> {
    collectors: Vec<Box<dyn Collector>>,
    update: Mutex<F>,
}

impl<F: FnMut() + Send> Collector for OnScrape<F> {
    fn desc(&self) -> Vec<&Desc> {
        self.collectors.iter().flat_map(|it| it.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut update = self.update.lock();
        update();
        self.collectors.iter().flat_map(|it| it.collect()).collect()
    }
}

/// Upstream's exponential buckets, in seconds.
const BUCKETS: [f64; 23] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0,
    90.0, 100.0, 120.0, 150.0, 240.0, 300.0,
];

/// Histogram of step durations, by step. Clones share it.
#[derive(Debug, Clone)]
pub struct StepLatency(HistogramVec);

impl StepLatency {
    /// Records the duration of a step outside a round.
    pub fn observe(&self, step: &str, duration: Duration) {
        self.0
            .with_label_values(&[step])
            .observe(duration.as_secs_f64());
    }

    pub fn start(&self) -> Steps {
        let now = Instant::now();
        Steps {
            latency: self.clone(),
            started: now,
            last: now,
        }
    }
}

impl Metric for StepLatency {
    fn of(family: &Family) -> Result<Self, prometheus::Error> {
        HistogramVec::of(&Family {
            name: family.name.clone(),
            buckets: &[&BUCKETS],
            ..*family
        })
        .map(Self)
    }
}

impl Collector for StepLatency {
    fn desc(&self) -> Vec<&Desc> {
        self.0.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.0.collect()
    }
}

/// One round of the main loop. A step begins at the end of the last; dropping records the total.
#[derive(Debug)]
pub struct Steps {
    latency: StepLatency,
    started: Instant,
    last: Instant,
}

impl Steps {
    pub fn done(&mut self, step: &str) {
        let now = Instant::now();
        self.latency.observe(step, now.duration_since(self.last));
        self.last = now;
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.latency.observe("total", self.started.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{GaugeVec, IntCounterVec, IntGauge, TextEncoder};

    use super::*;

    metrics! {
        struct Metrics(prefix: &str) {
            nodes: IntGauge = "nodes", "Nodes.";
            requests: IntCounterVec { code } = "requests_total", "Requests by code.";
            acts: IntCounterVec { act: ["evict", "resize"], result: ["ok", "error"] }
                = format!("{prefix}_acts_total"), "Acts.";
            load: GaugeVec { node } = "load", "Load.";
        }
    }

    fn shown(registry: &Registry) -> Vec<String> {
        let text = TextEncoder::new().encode_to_string(&registry.gather());
        let text = text.expect("text");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn known_series_start_at_zero_and_stay() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry, "my").expect("new names");
        let zero = [
            r#"my_acts_total{act="evict",result="error"} 0"#,
            r#"my_acts_total{act="evict",result="ok"} 0"#,
            r#"my_acts_total{act="resize",result="error"} 0"#,
            r#"my_acts_total{act="resize",result="ok"} 0"#,
            "nodes 0",
        ];
        assert_eq!(shown(&registry), zero);
        metrics.nodes.set(3);
        metrics.requests.with_label_values(&["200"]).inc();
        metrics.acts.with_label_values(&["evict", "ok"]).inc();
        assert_eq!(shown(&registry).len(), 6);
        metrics.reset();
        assert_eq!(shown(&registry), zero);
    }

    #[test]
    fn a_scrape_shows_the_last_update_only() {
        let registry = Registry::new();
        let metrics = Metrics::new("my").expect("names");
        let (collectors, load) = (vec![Box::new(metrics.load.clone()) as _], metrics.load);
        let mut scrape = 0;
        let update = move || {
            scrape += 1;
            load.reset();
            let node = format!("n{scrape}");
            load.with_label_values(&[node]).set(f64::from(scrape) / 2.0);
        };
        register_on_scrape(&registry, collectors, update).expect("new names");
        assert_eq!(shown(&registry), [r#"load{node="n1"} 0.5"#]);
        assert_eq!(shown(&registry), [r#"load{node="n2"} 1"#]);
    }
}

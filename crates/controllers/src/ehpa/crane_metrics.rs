//! Metrics of Crane's `craned` about EHPAs and predictions, with its names and labels, so that its
//! users' dashboards still work. The leader updates them every 10 s.
//!
//! The number of series is limited; the others are counted. The series are those of the last
//! update, so they end with their objects and with the Lease. Source: gocrane/crane
//! `pkg/metrics/autoscaling.go`, `pkg/metrics/metric_collector.go`.

use std::sync::Arc;
use std::time::Duration;

use horizontal::crane_metrics::{CraneSample, ScaleCounts, samples};
use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Gauge, LabelPair, Metric, MetricFamily};
use prometheus::{GaugeVec, IntGauge, Registry};
use runtime::Leading;
use runtime::metrics::count;
use tokio::sync::watch;
use tokio::task::block_in_place;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use view::View;

use crate::ehpa::EhpaInputs;

/// Interval of updates. The HPA controller works every 15 s.
const PERIOD: Duration = Duration::from_secs(10);

/// Maximum number of series, so that users cannot make a scrape arbitrarily large.
const LIMIT: usize = 20_000;

#[derive(Clone)]
pub struct CraneMetricsTask {
    /// View with the objects. Empty until their kinds are installed.
    horizontal: watch::Receiver<View>,
    recommender: String,
    metrics: CraneMetrics,
}

/// Removes all series at the end of the term.
struct ClearOnDrop(CraneMetrics);

impl Drop for ClearOnDrop {
    fn drop(&mut self) {
        self.0.show(Vec::new());
    }
}

impl CraneMetricsTask {
    pub(crate) fn register(
        inputs: &EhpaInputs,
        registry: &Registry,
    ) -> Result<Self, prometheus::Error> {
        let metrics = CraneMetrics::new(LIMIT)?;
        registry.register(Box::new(metrics.clone()))?;
        Ok(Self {
            horizontal: inputs.horizontal.clone(),
            recommender: inputs.recommender.clone(),
            metrics,
        })
    }

    /// Runs until shutdown, or until it is dropped with the Lease.
    pub async fn run(self, leading: Leading, shutdown: CancellationToken) -> anyhow::Result<()> {
        let shown = ClearOnDrop(self.metrics.clone());
        let mut counts = ScaleCounts::default();
        let work = async {
            loop {
                let synced = self.horizontal.borrow().is_synced();
                if synced && leading.holds(std::time::Instant::now()) {
                    let update = || {
                        let copy_of = copy_of(&self.horizontal.borrow());
                        samples(&copy_of, &mut counts, &self.recommender, Timestamp::now())
                    };
                    shown.0.show(block_in_place(update));
                }
                sleep(PERIOD).await;
            }
        };
        shutdown.run_until_cancelled(work).await;
        Ok(())
    }
}

/// A copy of the relevant tables: the computation should not block writers of the view.
fn copy_of(view: &View) -> View {
    let mut copy_of = View::default();
    copy_of.ehpas.clone_from(&view.ehpas);
    copy_of.hpas.clone_from(&view.hpas);
    copy_of.predictions.clone_from(&view.predictions);
    copy_of
}

runtime::metrics! {
    /// Labels in the order of the label values of a sample.
    struct Rows {
        ehpa_replicas: GaugeVec { namespace, name } = "crane_autoscaling_effective_hpa_replicas",
            "Desired replicas of the HorizontalPodAutoscaler of an EffectiveHorizontalPodAutoscaler.";
        hpa_replicas: GaugeVec { namespace, name } = "crane_autoscaling_hpa_replicas",
            "Desired replicas of a HorizontalPodAutoscaler.";
        scale_count: GaugeVec { namespace, name, type } = "crane_autoscaling_hpa_scale_count",
            "Number of times that a HorizontalPodAutoscaler was observed to scale; type is ehpa if an EffectiveHorizontalPodAutoscaler owns it, else hpa.";
        cron: GaugeVec { targetKind, targetName, targetNamespace, resourceIdentifier }
            = "crane_autoscaling_cron",
            "Current replicas of the crons of an EffectiveHorizontalPodAutoscaler.";
        prediction: GaugeVec { targetKind, targetName, targetNamespace, resourceIdentifier, algorithm }
            = "crane_autoscaling_prediction",
            "The largest predicted value of the window that begins now.";
        time_series: GaugeVec { targetKind, targetName, targetNamespace, resourceIdentifier, algorithm }
            = "crane_prediction_tsp",
            "The next predicted value, at its own time.";
        omitted: IntGauge = "plimsoll_crane_series_omitted",
            "Series of Crane's metrics beyond 20,000.";
    }
}

/// Crane's metrics. Clones share them.
#[derive(Debug, Clone)]
struct CraneMetrics {
    limit: usize,
    shown: Arc<Mutex<Vec<CraneSample>>>,
    rows: Rows,
}

impl CraneMetrics {
    /// Creates the metrics with at most `limit` series.
    fn new(limit: usize) -> Result<Self, prometheus::Error> {
        let (shown, rows) = (Arc::default(), Rows::new()?);
        Ok(Self { limit, shown, rows })
    }

    fn show(&self, mut samples: Vec<CraneSample>) {
        let omitted = samples.len().saturating_sub(self.limit);
        samples.truncate(self.limit);
        *self.shown.lock() = samples;
        self.rows.omitted.set(count(omitted));
    }
}

impl Rows {
    /// In the order of [`horizontal::crane_metrics::CraneMetric`].
    fn gauges(&self) -> [&GaugeVec; 6] {
        [
            &self.ehpa_replicas,
            &self.hpa_replicas,
            &self.scale_count,
            &self.cron,
            &self.prediction,
            &self.time_series,
        ]
    }
}

/// The gauges have no series of their own: those of a `GaugeVec` have no timestamps.
impl Collector for CraneMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = self.rows.gauges().into_iter().flat_map(Collector::desc);
        gauges.chain(self.rows.omitted.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let gauges = self.rows.gauges();
        let mut families: Vec<_> = gauges.iter().flat_map(|gauge| gauge.collect()).collect();
        for sample in &*self.shown.lock() {
            let place = sample.metric as usize;
            let labels = &gauges[place].desc()[0].variable_labels;
            families[place].mut_metric().push(metric(labels, sample));
        }
        families.retain(|family| !family.get_metric().is_empty());
        let omitted = self.rows.omitted.collect();
        families.into_iter().chain(omitted).collect()
    }
}

fn metric(names: &[String], sample: &CraneSample) -> Metric {
    let pair = |(name, value): (&String, &String)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.clone());
        pair.set_value(value.clone());
        pair
    };
    let mut gauge = Gauge::default();
    gauge.set_value(sample.value);
    let mut metric = Metric::from_gauge(gauge);
    metric.set_label(names.iter().zip(&sample.labels).map(pair).collect());
    if let Some(at) = sample.at {
        metric.set_timestamp_ms(at.saturating_mul(1000));
    }
    metric
}

#[cfg(test)]
mod tests {
    use horizontal::crane_metrics::CraneMetric::{
        Cron, EffectiveReplicas, NextPredicted, Prediction, Replicas, ScaleCount,
    };
    use prometheus::{Registry, TextEncoder};

    use super::*;

    fn all() -> Vec<CraneSample> {
        let predicted = &["Deployment", "web", "shop", "resource.cpu", "dsp"][..];
        let rows = [
            (EffectiveReplicas, &["shop", "web"][..], 4.0),
            (Replicas, &["shop", "ehpa-web"], 5.0),
            (ScaleCount, &["shop", "ehpa-web", "ehpa"], 2.0),
            (Cron, &["Deployment", "web", "shop", "cron"], 6.0),
            (Prediction, predicted, 1.25),
            (NextPredicted, predicted, 1.0),
        ];
        let samples = rows.map(|(metric, labels, value)| CraneSample {
            at: matches!(metric, NextPredicted).then_some(1_767_225_600),
            metric,
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            value,
        });
        samples.into()
    }

    /// `expected`: the series shown.
    fn check(limit: usize, samples: Vec<CraneSample>, expected: &[&str]) {
        let registry = Registry::new();
        let metrics = CraneMetrics::new(limit).expect("valid names");
        registry.register(Box::new(metrics.clone())).expect("once");
        metrics.show(all());
        metrics.show(samples);
        let text = TextEncoder::new()
            .encode_to_string(&registry.gather())
            .expect("text");
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn names_labels_and_times_are_cranes() {
        check(
            100,
            all(),
            &[
                r#"crane_autoscaling_cron{targetKind="Deployment",targetName="web",targetNamespace="shop",resourceIdentifier="cron"} 6"#,
                r#"crane_autoscaling_effective_hpa_replicas{namespace="shop",name="web"} 4"#,
                r#"crane_autoscaling_hpa_replicas{namespace="shop",name="ehpa-web"} 5"#,
                r#"crane_autoscaling_hpa_scale_count{namespace="shop",name="ehpa-web",type="ehpa"} 2"#,
                r#"crane_autoscaling_prediction{targetKind="Deployment",targetName="web",targetNamespace="shop",resourceIdentifier="resource.cpu",algorithm="dsp"} 1.25"#,
                r#"crane_prediction_tsp{targetKind="Deployment",targetName="web",targetNamespace="shop",resourceIdentifier="resource.cpu",algorithm="dsp"} 1 1767225600000"#,
                "plimsoll_crane_series_omitted 0",
            ],
        );
    }

    #[test]
    fn what_is_gone_is_not_shown_and_what_is_too_much_is_counted() {
        check(100, Vec::new(), &["plimsoll_crane_series_omitted 0"]);
        check(
            1,
            all(),
            &[
                r#"crane_autoscaling_effective_hpa_replicas{namespace="shop",name="web"} 4"#,
                "plimsoll_crane_series_omitted 5",
            ],
        );
    }
}

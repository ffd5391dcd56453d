//! Metrics of Crane's `craned` about EHPAs and predictions, with its names and labels, so that its
//! users' dashboards still work.
//!
//! The number of series is limited; the others are counted. The series are those of the last
//! update, so they end with their objects and with the Lease. Source: gocrane/crane
//! `pkg/metrics/autoscaling.go`, `pkg/metrics/metric_collector.go`.

use std::collections::HashMap;
use std::sync::Arc;

use horizontal::crane_metrics::CraneSample;
use parking_lot::Mutex;
use prometheus::IntGauge;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType};

/// Metric with its labels, in the order of the label values of a sample.
struct Family {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
}

const AUTOSCALER: &[&str] = &["namespace", "name"];
const TARGET: &[&str] = &[
    "targetKind",
    "targetName",
    "targetNamespace",
    "resourceIdentifier",
];
const PREDICTED: &[&str] = &[
    "targetKind",
    "targetName",
    "targetNamespace",
    "resourceIdentifier",
    "algorithm",
];

/// In the order of [`horizontal::crane_metrics::CraneMetric`].
const FAMILIES: [Family; 6] = [
    Family {
        name: "crane_autoscaling_effective_hpa_replicas",
        help: "Desired replicas of the HorizontalPodAutoscaler of an EffectiveHorizontalPodAutoscaler.",
        labels: AUTOSCALER,
    },
    Family {
        name: "crane_autoscaling_hpa_replicas",
        help: "Desired replicas of a HorizontalPodAutoscaler.",
        labels: AUTOSCALER,
    },
    Family {
        name: "crane_autoscaling_hpa_scale_count",
        help: "Number of times that a HorizontalPodAutoscaler was observed to scale; type is ehpa if an EffectiveHorizontalPodAutoscaler owns it, else hpa.",
        labels: &["namespace", "name", "type"],
    },
    Family {
        name: "crane_autoscaling_cron",
        help: "Current replicas of the crons of an EffectiveHorizontalPodAutoscaler.",
        labels: TARGET,
    },
    Family {
        name: "crane_autoscaling_prediction",
        help: "The largest predicted value of the window that begins now.",
        labels: PREDICTED,
    },
    Family {
        name: "crane_prediction_tsp",
        help: "The next predicted value, at its own time.",
        labels: PREDICTED,
    },
];

/// Crane's metrics. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct CraneMetrics {
    limit: usize,
    shown: Arc<Mutex<Vec<CraneSample>>>,
    descriptions: Arc<[Desc]>,
    omitted: IntGauge,
}

impl CraneMetrics {
    /// Creates the metrics with at most `limit` series.
    pub(super) fn new(limit: usize) -> Result<Self, prometheus::Error> {
        let describe = |Family { name, help, labels }: &Family| {
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            Desc::new(
                (*name).to_owned(),
                (*help).to_owned(),
                labels,
                HashMap::new(),
            )
        };
        let omitted = IntGauge::new(
            "plimsoll_crane_series_omitted",
            "Series of Crane's metrics beyond --crane-metrics-limit.",
        )?;
        let descriptions = FAMILIES
            .iter()
            .map(describe)
            .collect::<Result<Vec<_>, _>>()?
            .into();
        Ok(Self {
            limit,
            shown: Arc::default(),
            descriptions,
            omitted,
        })
    }

    /// Replaces all series, in their order up to the limit.
    pub(super) fn show(&self, mut samples: Vec<CraneSample>) {
        let omitted = samples.len().saturating_sub(self.limit);
        samples.truncate(self.limit);
        *self.shown.lock() = samples;
        self.omitted.set(i64::try_from(omitted).unwrap_or(i64::MAX));
    }
}

impl Collector for CraneMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions
            .iter()
            .chain(self.omitted.desc())
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families: Vec<MetricFamily> = FAMILIES.iter().map(Family::empty).collect();
        for sample in &*self.shown.lock() {
            let place = sample.metric as usize;
            if let (Some(family), Some(Family { labels, .. })) =
                (families.get_mut(place), FAMILIES.get(place))
            {
                family.mut_metric().push(metric(labels, sample));
            }
        }
        families.retain(|family| !family.get_metric().is_empty());
        families.into_iter().chain(self.omitted.collect()).collect()
    }
}

impl Family {
    fn empty(&self) -> MetricFamily {
        let mut family = MetricFamily::default();
        family.set_name(self.name.to_owned());
        family.set_help(self.help.to_owned());
        family.set_field_type(MetricType::GAUGE);
        family
    }
}

fn metric(names: &[&str], sample: &CraneSample) -> Metric {
    let pair = |(name, value): (&&str, &String)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
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

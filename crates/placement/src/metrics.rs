//! Average and standard deviation of a resource from the metric list of a node.

use serde::{Deserialize, Serialize};

/// Metric of a node, as in load-watcher's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    pub metric_type: MetricType,
    /// Statistic over the window.
    pub operator: MetricOperator,
    /// Value; percent for CPU and memory.
    pub value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    Cpu,
    Memory,
    /// `Bandwidth`, `Storage`, `Energy`, `Unknown` or another text.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricOperator {
    Average,
    StandardDeviation,
    Latest,
    /// The empty text.
    Unspecified,
    /// `Unknown` or another text.
    Other,
}

impl From<&str> for MetricType {
    fn from(text: &str) -> Self {
        match text {
            "CPU" => Self::Cpu,
            "Memory" => Self::Memory,
            _ => Self::Other,
        }
    }
}

impl From<&str> for MetricOperator {
    fn from(text: &str) -> Self {
        match text {
            "AVG" => Self::Average,
            "STD" => Self::StandardDeviation,
            "Latest" => Self::Latest,
            "" => Self::Unspecified,
            _ => Self::Other,
        }
    }
}

/// Utilization of a resource over a window, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub average_percent: f64,
    pub deviation_percent: f64,
}

/// The average and the standard deviation of a resource, each 0 when missing; `None` without any
/// metric of the resource. An average comes before a latest value.
///
/// A value that is not finite counts as missing.
pub fn usage(metrics: &[Metric], resource: MetricType) -> Option<Usage> {
    let mut found = None;
    let mut has_average = false;
    let of_resource = |metric: &&Metric| metric.metric_type == resource && metric.value.is_finite();
    for metric in metrics.iter().filter(of_resource) {
        let usage: &mut Usage = found.get_or_insert_default();
        match metric.operator {
            MetricOperator::Average => {
                usage.average_percent = metric.value;
                has_average = true;
            }
            MetricOperator::StandardDeviation => usage.deviation_percent = metric.value,
            MetricOperator::Latest | MetricOperator::Unspecified if !has_average => {
                usage.average_percent = metric.value;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(text: &str, operator: &str, value: f64) -> Metric {
        Metric {
            metric_type: text.into(),
            operator: operator.into(),
            value,
        }
    }

    #[test]
    fn an_average_comes_before_a_latest_value_and_not_a_number_is_missing() {
        let check = |metrics: &[Metric], expected: Option<(f64, f64)>| {
            let found = usage(metrics, MetricType::Cpu)
                .map(|usage| (usage.average_percent, usage.deviation_percent));
            assert_eq!(found, expected, "{metrics:?}");
        };
        let cpu = |operator, value| metric("CPU", operator, value);
        let [unnamed, average, deviation] = [("", 40.0), ("AVG", 30.0), ("STD", 36.0)]
            .map(|(operator, value)| cpu(operator, value));
        check(&[unnamed, average, deviation], Some((30.0, 36.0)));
        check(&[average, unnamed], Some((30.0, 0.0)));
        check(&[unnamed], Some((40.0, 0.0)));
        check(&[deviation], Some((0.0, 36.0)));
        check(&[metric("Memory", "AVG", 20.0)], None);
        check(&[cpu("AVG", f64::NAN)], None);
        check(&[cpu("AVG", f64::INFINITY), unnamed], Some((40.0, 0.0)));
    }
}

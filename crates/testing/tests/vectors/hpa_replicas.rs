//! One metric of the native HPA at one time.

use jiff::{SignedDuration, Timestamp};
use model::ResourceName;
use serde::Deserialize;
use serde_json::Value as Json;
use testing::hpa::{
    Metric, PerPodTarget, Proposal, ReadinessDelays, Reading, Tolerance, TotalTarget, Value,
    Workload,
};
use testing::vectors::each_case;

use crate::hpa_objects::{MetricValue, pod_metrics, pods};

#[derive(Deserialize)]
struct Case {
    function: String,
    now: Timestamp,
    current_replicas: i32,
    tolerance_up: f64,
    tolerance_down: f64,
    cpu_initialization_period_ns: i64,
    initial_readiness_delay_ns: i64,
    metrics_error: bool,
    pods: Option<Vec<Json>>,
    metrics: Option<Vec<MetricValue>>,
    resource: Option<String>,
    container: Option<String>,
    target_utilization: Option<i32>,
    target_average_milli: Option<i64>,
    target_milli: Option<i64>,
    metric_milli: Option<i64>,
    metrics_milli: Option<Vec<i64>>,
    expect: Expected,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
struct Expected {
    error: bool,
    replicas: Option<i32>,
    utilization: Option<i32>,
    average_milli: Option<i64>,
    value_milli: Option<i64>,
}

impl From<Result<Proposal, String>> for Expected {
    fn from(found: Result<Proposal, String>) -> Self {
        let Ok(Proposal { replicas, value }) = found else {
            return Self {
                error: true,
                ..Self::default()
            };
        };
        let answer = Self {
            replicas: Some(replicas),
            ..Self::default()
        };
        match value {
            Value::Utilization {
                percent,
                average_milli,
            } => Self {
                utilization: Some(percent),
                average_milli: Some(average_milli),
                ..answer
            },
            Value::Average { milli } => Self {
                average_milli: Some(milli),
                ..answer
            },
            Value::Total { milli } => Self {
                value_milli: Some(milli),
                ..answer
            },
        }
    }
}

impl Case {
    fn metric(&self) -> Metric {
        let average = || self.target_average_milli.expect("an average");
        let total = || match self.target_milli {
            Some(milli) => TotalTarget::Milli(milli),
            None => TotalTarget::AverageMilli(average()),
        };
        match self.function.as_str() {
            "resource" | "container_resource" | "raw_resource" => Metric::Resource {
                resource: ResourceName::from(self.resource.as_deref().expect("a resource")),
                container: self.container.clone().filter(|name| !name.is_empty()),
                target: match self.target_utilization {
                    Some(percent) => PerPodTarget::Utilization(percent),
                    None => PerPodTarget::AverageMilli(average()),
                },
            },
            "pods" => Metric::Pods {
                average_milli: average(),
            },
            "object" | "object_per_pod" => Metric::Object(total()),
            "external" | "external_per_pod" => Metric::External(total()),
            other => panic!("function {other}"),
        }
    }

    fn propose(&self) -> Result<Proposal, String> {
        if self.metrics_error {
            return Err("recorded so".to_owned());
        }
        let values = pod_metrics(self.metrics.as_deref().unwrap_or_default());
        let reading = match self.metric_milli {
            Some(milli) => Reading::Object(milli),
            None if self.function.starts_with("external") => {
                Reading::External(self.metrics_milli.as_deref().unwrap_or_default())
            }
            None => Reading::Pods(&values),
        };
        let workload = Workload {
            pods: &pods(self.pods.as_deref().unwrap_or_default()),
            spec_replicas: self.current_replicas,
            status_replicas: self.current_replicas,
            tolerance: Tolerance {
                up: self.tolerance_up,
                down: self.tolerance_down,
            },
            delays: ReadinessDelays {
                cpu_initialization: SignedDuration::from_nanos(self.cpu_initialization_period_ns),
                initial_readiness: SignedDuration::from_nanos(self.initial_readiness_delay_ns),
            },
            now: self.now,
        };
        workload.propose(&self.metric(), reading)
    }
}

#[test]
fn vectors_hpa_replicas() {
    each_case("hpa/replicas", |number, case: Case| {
        let found = case.propose();
        assert_eq!(
            Expected::from(found.clone()),
            case.expect,
            "case {number}: {} {found:?}",
            case.function
        );
    });
}

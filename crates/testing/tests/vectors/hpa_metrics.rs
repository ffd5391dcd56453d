//! Several metrics of the native HPA combined.

use jiff::Timestamp;
use model::{Quantity, ResourceName};
use serde::Deserialize;
use serde_json::Value as Json;
use testing::hpa::{
    Metric, PerPodTarget, Proposal, ReadinessDelays, Reading, Tolerance, TotalTarget, Value,
    Workload, combine,
};
use testing::vectors::each_case;

use crate::hpa_behavior::behavior;
use crate::hpa_objects::{MetricValue, pod_metrics, pods};

#[derive(Deserialize)]
struct Case {
    behavior: Option<Json>,
    now: Timestamp,
    metric_specs: Vec<Json>,
    pods: Vec<Json>,
    metrics: Option<Vec<MetricValue>>,
    object_milli: i64,
    external_milli: Vec<i64>,
    spec_replicas: i32,
    status_replicas: i32,
    expect: Expected,
}

#[derive(Deserialize)]
struct Expected {
    error: bool,
    metric: String,
    replicas: i32,
    scaling_active: Condition,
    statuses: Vec<Json>,
}

#[derive(Deserialize)]
struct Condition {
    reason: String,
    status: String,
}

fn milli(quantity: &Json) -> i64 {
    let quantity = quantity.as_str().expect("a quantity").parse::<Quantity>();
    quantity.expect("a quantity").milli_value()
}

fn text(value: &Json) -> String {
    value.as_str().expect("a text").to_owned()
}

fn total_target(target: &Json) -> TotalTarget {
    match text(&target["type"]).as_str() {
        "Value" => TotalTarget::Milli(milli(&target["value"])),
        "AverageValue" => TotalTarget::AverageMilli(milli(&target["averageValue"])),
        other => panic!("target {other}"),
    }
}

fn resource_metric(source: &Json) -> Metric {
    let target = &source["target"];
    Metric::Resource {
        resource: ResourceName::from(source["name"].as_str().expect("a name")),
        container: source["container"].as_str().map(str::to_owned),
        target: match text(&target["type"]).as_str() {
            "Utilization" => {
                let percent = target["averageUtilization"].as_i64().expect("percent");
                PerPodTarget::Utilization(i32::try_from(percent).expect("percent"))
            }
            "AverageValue" => PerPodTarget::AverageMilli(milli(&target["averageValue"])),
            other => panic!("target {other}"),
        },
    }
}

fn metric(spec: &Json) -> Metric {
    match text(&spec["type"]).as_str() {
        "Resource" => resource_metric(&spec["resource"]),
        "ContainerResource" => resource_metric(&spec["containerResource"]),
        "Pods" => Metric::Pods {
            average_milli: milli(&spec["pods"]["target"]["averageValue"]),
        },
        "Object" => Metric::Object(total_target(&spec["object"]["target"])),
        "External" => Metric::External(total_target(&spec["external"]["target"])),
        other => panic!("metric {other}"),
    }
}

/// The controller's name of a metric in its messages.
fn name(spec: &Json) -> String {
    let metric = |source: &str| text(&spec[source]["metric"]["name"]);
    let resource = |source: &str, container: &str| {
        let target = &spec[source]["target"]["type"];
        let percent = " utilization (percentage of request)";
        let target = if target == "Utilization" { percent } else { "" };
        let resource = text(&spec[source]["name"]);
        format!("{resource} {container}resource{target}")
    };
    match text(&spec["type"]).as_str() {
        "Resource" => resource("resource", ""),
        "ContainerResource" => resource("containerResource", "container "),
        "Pods" => format!("pods metric {}", metric("pods")),
        // As in the controller, which uses the external metric's text here.
        "Object" if spec["object"]["target"]["type"] == "AverageValue" => {
            format!("external metric {}(nil)", metric("object"))
        }
        "Object" => {
            let kind = text(&spec["object"]["describedObject"]["kind"]);
            format!("{kind} metric {}", metric("object"))
        }
        "External" => format!("external metric {}(nil)", metric("external")),
        other => panic!("metric {other}"),
    }
}

/// Reported status of a metric in milli-units: of a total, of an average, and in percent.
fn reported(status: &Json) -> Option<(Option<i64>, Option<i64>, Option<i64>)> {
    let source = status
        .as_object()?
        .iter()
        .find(|(key, _)| *key != "type")?
        .1;
    let current = &source["current"];
    let quantity = |key: &str| current.get(key).map(milli);
    Some((
        quantity("value"),
        quantity("averageValue"),
        current["averageUtilization"].as_i64(),
    ))
}

fn values(proposal: &Proposal) -> (Option<i64>, Option<i64>, Option<i64>) {
    match proposal.value {
        Value::Utilization {
            percent,
            average_milli,
        } => (None, Some(average_milli), Some(percent.into())),
        Value::Average { milli } => (None, Some(milli), None),
        Value::Total { milli } => (Some(milli), None, None),
    }
}

fn failure_reason(metric: &Metric) -> &'static str {
    match metric {
        Metric::Resource {
            container: None, ..
        } => "FailedGetResourceMetric",
        Metric::Resource { .. } => "FailedGetContainerResourceMetric",
        Metric::Pods { .. } => "FailedGetPodsMetric",
        Metric::Object(_) => "FailedGetObjectMetric",
        Metric::External(_) => "FailedGetExternalMetric",
    }
}

impl Case {
    fn proposals(&self, metrics: &[Metric]) -> Vec<Result<Proposal, String>> {
        let usual = Tolerance::default();
        let tolerance = self
            .behavior
            .as_ref()
            .map_or(usual, |object| behavior(object).tolerance(usual));
        let workload = Workload {
            pods: &pods(&self.pods),
            spec_replicas: self.spec_replicas,
            status_replicas: self.status_replicas,
            tolerance,
            delays: ReadinessDelays::default(),
            now: self.now,
        };
        let values = pod_metrics(self.metrics.as_deref().unwrap_or_default());
        let reading = |metric: &Metric| match metric {
            Metric::Resource { .. } | Metric::Pods { .. } => Reading::Pods(&values),
            Metric::Object(_) => Reading::Object(self.object_milli),
            Metric::External(_) => Reading::External(&self.external_milli),
        };
        metrics
            .iter()
            .map(|metric| workload.propose(metric, reading(metric)))
            .collect()
    }

    fn check(&self, number: usize) {
        let metrics: Vec<Metric> = self.metric_specs.iter().map(metric).collect();
        let proposals = self.proposals(&metrics);
        let found = combine(self.spec_replicas, &proposals);
        let name = found.metric.map(|index| name(&self.metric_specs[index]));
        let name = name.unwrap_or_default();
        let context = format!("case {number}: {proposals:?}");
        let replicas = found.replicas.unwrap_or(-1);
        assert_eq!(replicas, self.expect.replicas, "{context}");
        assert_eq!(name, self.expect.metric, "{context}");
        assert_eq!(found.failed.is_some(), self.expect.error, "{context}");
        let active = match (found.replicas, found.failed) {
            (Some(_), _) => ["ValidMetricFound", "True"],
            (None, Some(index)) => [failure_reason(&metrics[index]), "False"],
            (None, None) => panic!("{context}: nothing found, nothing failed"),
        };
        let expected = &self.expect.scaling_active;
        assert_eq!([&expected.reason, &expected.status], active, "{context}");
        for (status, proposal) in self.expect.statuses.iter().zip(&proposals) {
            let found = proposal.as_ref().ok().map(values);
            assert_eq!(reported(status), found, "{context}");
        }
    }
}

#[test]
fn vectors_hpa_metrics() {
    each_case("hpa/metrics", |number, case: Case| {
        case.check(number);
    });
}

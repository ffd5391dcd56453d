//! Crane's replicas recommender.

use std::collections::BTreeMap;

use model::ResourceList;
use scaling::{ContainerRequests, ReplicasConfig};
use serde::Deserialize;
use serde_json::Value;
use testing::vectors::{each_case, items, or_default};

#[derive(Deserialize)]
struct Case {
    config: BTreeMap<String, String>,
    cpu_history: Option<Vec<f64>>,
    cpu_forecast: Option<Vec<f64>>,
    memory_input: Option<Vec<f64>>,
    pod_template: Value,
    expect: Expected,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Expected {
    error: bool,
    replicas: Option<u32>,
    max_cpu: Option<f64>,
    percentile_cpu: Option<f64>,
}

fn config(written: &BTreeMap<String, String>) -> ReplicasConfig {
    let mut config = ReplicasConfig::default();
    for (key, text) in written {
        let number: f64 = text
            .parse()
            .unwrap_or_else(|error| panic!("{key}: {error}"));
        match key.as_str() {
            "cpu-percentile" => config.cpu.percentile = number,
            "mem-percentile" => config.memory.percentile = number,
            "cpu-target-utilization" => config.cpu.utilization = number,
            "mem-target-utilization" => config.memory.utilization = number,
            "default-min-replicas" => config.min_replicas = number as u32,
            other => panic!("the setting {other} is not known"),
        }
    }
    config
}

#[test]
fn vectors_crane_replicas() {
    each_case("crane/replicas", |number, case: Case| {
        let requests = |container: &Value| {
            let requests: ResourceList = or_default(&container["resources"]["requests"]);
            ContainerRequests {
                cpu: requests.cpu(),
                memory: requests.memory(),
            }
        };
        let containers = items(&case.pod_template["spec"]["containers"]);
        let containers: Vec<_> = containers.map(requests).collect();
        let found = config(&case.config).recommend(
            case.cpu_history.as_deref().unwrap_or_default(),
            case.cpu_forecast.as_deref().unwrap_or_default(),
            case.memory_input.as_deref().unwrap_or_default(),
            &containers,
        );
        let found = found.ok();
        let found = Expected {
            error: found.is_none(),
            replicas: found.map(|replicas| replicas.count),
            max_cpu: found.map(|replicas| replicas.max_cpu),
            percentile_cpu: found.map(|replicas| replicas.percentile_cpu),
        };
        assert_eq!(found, case.expect, "case {number}: {:?}", case.config);
    });
}

//! Crane's resource recommender: from the usage of a workload's containers and OOM records to
//! requests.
//!
//! `action` and `current_info` belong to Crane's `Recommendation` object, which does not exist
//! here, and are not compared.

use std::collections::BTreeMap;

use model::{Cpu, Memory, Quantity, ResourceList};
use serde::Deserialize;
use serde_json::Value;
use sizing::{CraneConfig, PercentilePredictor, WeightedHistogram};
use testing::vectors::{each_case, items};

#[derive(Deserialize)]
struct Case {
    config: BTreeMap<String, String>,
    pod: Value,
    workload: String,
    namespace: String,
    history: BTreeMap<String, History>,
    oom_records: Option<Vec<OomRecord>>,
    expect: Expected,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Container {
    name: String,
    resources: Resources,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Resources {
    #[serde(default)]
    requests: ResourceList,
}

#[derive(Default, Deserialize)]
struct History {
    cpu: Option<Vec<Vec<f64>>>,
    memory: Option<Vec<Vec<f64>>>,
}

#[derive(Deserialize)]
struct OomRecord {
    age_hours: f64,
    namespace: String,
    pod: String,
    container: String,
    memory: Quantity,
}

#[derive(Deserialize)]
struct Expected {
    error: bool,
    /// A patch of the workload.
    recommended_info: Option<Value>,
}

impl Case {
    /// The first record of a pod whose name starts with the workload's, if it is not too old:
    /// Crane's search.
    fn killed(&self, container: &str) -> Option<Memory> {
        let is_ours = |record: &&OomRecord| {
            record.namespace == self.namespace
                && record.container == container
                && record.pod.starts_with(&self.workload)
        };
        let record = self.oom_records.iter().flatten().find(is_ours)?;
        (record.age_hours <= 7.0 * 24.0).then(|| Memory::from(&record.memory))
    }

    /// `None` if any container has no recommendation.
    fn recommend(&self, config: &CraneConfig) -> Option<Vec<Container>> {
        let none = History::default();
        let containers = items(&self.pod["spec"]["containers"]).map(|container| {
            let name = container["name"].as_str().expect("a name");
            let history = self.history.get(name).unwrap_or(&none);
            let cpu = histogram(&config.cpu, history.cpu.as_deref());
            let memory = histogram(&config.memory, history.memory.as_deref());
            let (cpu, memory): (Cpu, Memory) =
                config.recommend(&cpu, &memory, self.killed(name))?;
            let requests = ResourceList::of(cpu, memory);
            Some(Container {
                name: name.to_owned(),
                resources: Resources { requests },
            })
        });
        containers.collect()
    }
}

fn histogram(predictor: &PercentilePredictor, series: Option<&[Vec<f64>]>) -> WeightedHistogram {
    let mut histogram = WeightedHistogram::default();
    for value in series.into_iter().flatten().flatten() {
        predictor.add(&mut histogram, *value);
    }
    histogram
}

#[test]
fn vectors_crane_resource() {
    each_case("crane/resource", |number, case: Case| {
        let setting = |key: &str| case.config.get(key).map(String::as_str);
        let known = |key: &String| {
            CraneConfig::KEYS.contains(&key.as_str()) || key == CraneConfig::SPECIFICATION_KEY
        };
        assert!(
            case.config.keys().all(known),
            "case {number}: {:?}",
            case.config
        );
        let config =
            CraneConfig::new(setting).unwrap_or_else(|error| panic!("case {number}: {error}"));
        let recommended = case.recommend(&config);
        assert_eq!(recommended.is_none(), case.expect.error, "case {number}");
        let expected = case.expect.recommended_info;
        let expected = expected.map(|patch| {
            let pod = &patch["spec"]["template"]["spec"];
            Vec::<Container>::deserialize(&pod["containers"]).expect("containers")
        });
        assert_eq!(recommended, expected, "case {number}: {:?}", case.config);
    });
}

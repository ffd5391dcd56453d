//! Patches recorded by running upstream's webhook (`tests/vectors/vpa/admission*.json`).

use api::vpa::{self, VerticalPodAutoscaler};
use cluster::LimitType;
use model::{Limits, NamespaceLimits, Quantity, Recommendation, ResourceList};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Pod, Sizing, patch};
use crate::state::{Gates, Settings};

#[derive(Deserialize)]
struct Case {
    vpa: Value,
    pod: Pod,
    limit_ranges: Option<Vec<LimitRange>>,
    gate_cpu_startup_boost: bool,
    max_allowed_cpu_boost: String,
    expect: Expected,
}

#[derive(Deserialize)]
struct LimitRange {
    spec: LimitRangeSpec,
}

#[derive(Deserialize)]
struct LimitRangeSpec {
    limits: Vec<LimitRangeItem>,
}

#[derive(Deserialize)]
struct LimitRangeItem {
    #[serde(rename = "type")]
    kind: String,
    min: Option<ResourceList>,
    max: Option<ResourceList>,
    default: Option<ResourceList>,
}

#[derive(Deserialize)]
struct Expected {
    /// Upstream crashes; ours must only not do so.
    #[serde(default)]
    panic: bool,
    #[serde(default)]
    patches: Vec<Value>,
}

impl Case {
    fn limits(&self, kind: LimitType) -> Option<Limits> {
        let name = match kind {
            LimitType::Container => "Container",
            LimitType::Pod => "Pod",
        };
        let items = self.limit_ranges.iter().flatten().flat_map(|range| &range.spec.limits);
        Limits::merged(items.filter(|item| item.kind == name).map(|item| Limits {
            min: item.min.clone(),
            max: item.max.clone(),
            default: item.default.clone(),
        }))
    }

    fn object(&self) -> VerticalPodAutoscaler {
        let mut object = self.vpa.clone();
        object["spec"]["targetRef"] = json!({"kind": "Deployment", "name": "any"});
        vpa::parse(object).expect("the autoscaler parses")
    }

    fn patches(&self) -> Vec<Value> {
        let object = self.object();
        let status = object.status.clone().unwrap_or_default();
        let recommendation = status.recommendation.map(Recommendation::from);
        let limits =
            NamespaceLimits { containers: self.limits(LimitType::Container), pods: self.limits(LimitType::Pod) };
        let most: Option<Quantity> =
            (!self.max_allowed_cpu_boost.is_empty()).then(|| self.max_allowed_cpu_boost.parse().expect("a quantity"));
        let settings = Settings {
            gates: Gates { startup_boost: self.gate_cpu_startup_boost, ..Gates::default() },
            max_cpu_boost: most,
            ..Settings::default()
        };
        let sizing = Sizing { object: &object, recommendation: recommendation.as_ref() };
        let patch = patch(&self.pod, sizing, &limits, &settings).unwrap_or_default();
        patch.iter().map(|operation| serde_json::to_value(operation).expect("an operation")).collect()
    }
}

fn cases(file: &str) -> Vec<Case> {
    #[derive(Deserialize)]
    struct File {
        cases: Vec<Case>,
    }
    let path = format!("{}/../../tests/vectors/vpa/{file}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str::<File>(&text).unwrap_or_else(|error| panic!("{path}: {error}")).cases
}

#[test]
fn vectors_admission() {
    let cases: Vec<Case> = ["admission", "admission_2"].into_iter().flat_map(cases).collect();
    assert_eq!(cases.len(), 150);
    for (index, case) in cases.iter().enumerate() {
        let patches = case.patches();
        if !case.expect.panic {
            assert_eq!(patches, case.expect.patches, "case {index}");
        }
    }
}

//! Patches recorded from upstream's webhook.

use std::sync::Arc;

use api::vpa::{self, VerticalPodAutoscaler};
use model::Quantity;
use serde::Deserialize;
use serde_json::{Value, json};
use sizing::Target;
use view::{LimitRange, View};

use super::{Pod, patch};
use crate::input::{AdmissionConfig, Gates};

#[derive(Deserialize)]
struct Case {
    vpa: Value,
    pod: Value,
    limit_ranges: Option<Vec<Value>>,
    gate_cpu_startup_boost: bool,
    max_allowed_cpu_boost: String,
    expect: Expected,
}

#[derive(Deserialize)]
struct Expected {
    /// Upstream panics; ours must not, and its patch is not compared.
    #[serde(default)]
    panic: bool,
    #[serde(default)]
    patches: Vec<Value>,
}

impl Case {
    fn view(&self) -> View {
        let mut view = View::default();
        for range in self.limit_ranges.iter().flatten() {
            let range = serde_json::from_value(range.clone()).expect("a limit range");
            view.limit_ranges
                .apply(Arc::new(LimitRange::from_k8s(range)));
        }
        view
    }

    fn object(&self) -> VerticalPodAutoscaler {
        let mut object = self.vpa.clone();
        object["spec"]["targetRef"] = json!({"kind": "Deployment", "name": "any"});
        vpa::parse(object).expect("the autoscaler parses")
    }

    fn patches(&self) -> Vec<Value> {
        let object = self.object();
        let status = object.status.clone().unwrap_or_default();
        let recommendation = status.recommendation;
        let targets = recommendation.as_ref().map(Target::all);
        let max: Option<Quantity> = (!self.max_allowed_cpu_boost.is_empty())
            .then(|| self.max_allowed_cpu_boost.parse().expect("a quantity"));
        let config = AdmissionConfig {
            gates: Gates {
                cpu_startup_boost: self.gate_cpu_startup_boost,
                ..Gates::default()
            },
            max_cpu_boost: max,
            ..AdmissionConfig::default()
        };
        let text = self.pod.to_string();
        let pod: Pod<'_> = serde_json::from_str(&text).expect("a pod");
        let view = self.view();
        let limits = view.namespace_limits("default");
        let patch = patch(&pod, &object, targets.as_deref(), &limits, &config);
        let patch = patch.unwrap_or_default();
        patch
            .into_json()
            .map(|json| serde_json::from_slice(&json).expect("a patch"))
            .unwrap_or_default()
    }
}

#[test]
fn vectors_admission() {
    let cases = testing::vectors::each_case("vpa/admission", |index, case: Case| {
        let patches = case.patches();
        if !case.expect.panic {
            assert_eq!(patches, case.expect.patches, "case {index}");
        }
    });
    assert!(matches!(cases, 0 | 150), "{cases} cases");
}

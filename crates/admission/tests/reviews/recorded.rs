//! Patches of unusual pods, and of those that the API server would refuse with the whole
//! recommendation: `golden/odd_pods.json` and `golden/reverted.json`.

use admission::{AdmissionConfig, Gates};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::fixture::{Fixture, merge, pod};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// The items of the namespace's `LimitRange`.
    #[serde(default)]
    limits: Value,
    /// Merged into an ordinary pod.
    pod: Value,
    /// Merged into an ordinary VPA object.
    #[serde(default, alias = "autoscaler")]
    vpa: Map<String, Value>,
    /// The gate `NativeSidecar`.
    #[serde(default)]
    sidecars: bool,
    #[serde(default)]
    boosts: bool,
    /// The patch, null if the pod is admitted unchanged; or the containers in its annotation
    /// `vpaUpdates`.
    #[serde(alias = "updates")]
    patch: Value,
}

impl Case {
    fn patch(&self) -> Value {
        let mut fixture = Fixture::new().vpa("web", &self.vpa.clone().into());
        if !self.limits.is_null() {
            fixture = fixture.limit_range(&self.limits);
        }
        fixture.config = AdmissionConfig {
            gates: Gates {
                cpu_startup_boost: self.boosts,
                ..Gates::default()
            },
            native_sidecars: self.sidecars,
            ..AdmissionConfig::default()
        };
        let mut object = pod(&json!({"requests": {"cpu": "1", "memory": "1Gi"}}));
        merge(&mut object, &self.pod);
        fixture.patch(&object).unwrap_or_default()
    }

    /// The containers in the annotation `vpaUpdates`.
    fn updates(&self) -> Value {
        let patch = self.patch();
        let operations = patch.as_array().map(Vec::as_slice).unwrap_or_default();
        let said = operations
            .iter()
            .find(|operation| operation["path"] == "/metadata/annotations/vpaUpdates");
        let said = said.and_then(|operation| operation["value"].as_str());
        let said = said.unwrap_or_default();
        json!(said.trim_start_matches("Pod resources updated by web: "))
    }
}

fn check(recorded: &str, found: impl Fn(&Case) -> Value) {
    let cases: Vec<Case> = serde_json::from_str(recorded).expect("cases");
    assert!(!cases.is_empty());
    let found = cases.iter().map(|case| (case, found(case)));
    let wrong: Vec<String> = found
        .filter(|(case, found)| *found != case.patch)
        .map(|(case, found)| format!("{}: {found}", case.name))
        .collect();
    assert!(
        wrong.is_empty(),
        "different from the recorded ones:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn unusual_pods_get_the_recorded_patches() {
    check(include_str!("golden/odd_pods.json"), Case::patch);
}

#[test]
fn resources_that_would_be_refused_stay_unchanged() {
    check(include_str!("golden/reverted.json"), Case::updates);
}

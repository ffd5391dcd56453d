//! Pods that the API server would refuse with the whole recommendation, and the text of their
//! annotation: `golden/reverted.json`.

use admission::AdmissionConfig;
use serde::Deserialize;
use serde_json::{Value, json};

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
    #[serde(default)]
    autoscaler: Value,
    /// The gate `NativeSidecar`.
    #[serde(default)]
    sidecars: bool,
    /// The containers in the annotation `vpaUpdates`.
    updates: String,
}

impl Case {
    fn updates(&self) -> String {
        let autoscaler = if self.autoscaler.is_null() {
            json!({})
        } else {
            self.autoscaler.clone()
        };
        let mut fixture = Fixture::new().vpa("web", &autoscaler);
        if !self.limits.is_null() {
            fixture = fixture.limit_range(&self.limits);
        }
        fixture.config = AdmissionConfig {
            native_sidecars: self.sidecars,
            ..AdmissionConfig::default()
        };
        let mut object = pod(&json!({"requests": {"cpu": "1", "memory": "1Gi"}}));
        merge(&mut object, &self.pod);
        updates(&fixture.patch(&object).unwrap_or_default()).to_owned()
    }
}

/// The containers in the annotation `vpaUpdates`.
fn updates(patch: &Value) -> &str {
    let operations = patch.as_array().map(Vec::as_slice).unwrap_or_default();
    let said = operations
        .iter()
        .find(|operation| operation["path"] == "/metadata/annotations/vpaUpdates");
    let said = said
        .and_then(|operation| operation["value"].as_str())
        .unwrap_or_default();
    said.strip_prefix("Pod resources updated by web: ")
        .unwrap_or(said)
}

#[test]
fn resources_that_would_be_refused_stay_unchanged() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("golden/reverted.json")).expect("cases");
    assert!(!cases.is_empty());
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            Some((case, case.updates())).filter(|(case, updates)| *updates != case.updates)
        })
        .map(|(case, updates)| format!("{}: {updates}", case.name))
        .collect();
    assert!(
        wrong.is_empty(),
        "texts differ from the recorded ones:\n{}",
        wrong.join("\n")
    );
}

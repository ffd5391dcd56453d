//! Pods that the API server would refuse if they got all that is recommended, with what is said of
//! their sizes: `golden/taken_back.json`.

use admission::AdmissionConfig;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::stage::{Stage, lay, pod};

#[derive(Deserialize)]
struct Case {
    name: String,
    /// The items of the namespace's `LimitRange`.
    #[serde(default)]
    limits: Value,
    /// What the pod is beside an ordinary one.
    pod: Value,
    /// What the autoscaler is beside an ordinary one.
    #[serde(default)]
    autoscaler: Value,
    /// Whether the flag for native sidecars is on.
    #[serde(default)]
    sidecars: bool,
    /// What the annotation says of the containers.
    updates: String,
}

impl Case {
    fn updates(&self) -> String {
        let autoscaler = if self.autoscaler.is_null() {
            json!({})
        } else {
            self.autoscaler.clone()
        };
        let mut stage = Stage::new().autoscaler("web", &autoscaler);
        if !self.limits.is_null() {
            stage = stage.limit_range(&self.limits);
        }
        stage.config = AdmissionConfig {
            native_sidecars: self.sidecars,
            ..AdmissionConfig::default()
        };
        let mut object = pod(&json!({"requests": {"cpu": "1", "memory": "1Gi"}}));
        lay(&mut object, &self.pod);
        updates(&stage.patch(&object).unwrap_or_default()).to_owned()
    }
}

/// What the patch says of the containers.
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
fn what_would_have_the_pod_refused_stays_as_it_is() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("golden/taken_back.json")).expect("cases");
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
        "other sizes than agreed:\n{}",
        wrong.join("\n")
    );
}

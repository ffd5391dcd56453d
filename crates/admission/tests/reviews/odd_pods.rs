//! Pods that are not as one thinks of pods, with the patches that they get: `golden/odd_pods.json`.

use admission::{AdmissionConfig, Gates};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::stage::{Stage, lay, pod};

#[derive(Deserialize)]
struct Case {
    name: String,
    /// What the pod is beside an ordinary one.
    pod: Value,
    /// What the autoscaler is beside an ordinary one.
    #[serde(default)]
    autoscaler: Value,
    /// Whether the flag for native sidecars and the gate for startup boosts are on.
    #[serde(default)]
    sidecars: bool,
    #[serde(default)]
    boosts: bool,
    /// Null where the pod stays as it is.
    patch: Value,
}

impl Case {
    fn patch(&self) -> Value {
        let autoscaler = if self.autoscaler.is_null() {
            json!({})
        } else {
            self.autoscaler.clone()
        };
        let mut stage = Stage::new().autoscaler("web", &autoscaler);
        stage.config = AdmissionConfig {
            gates: Gates {
                cpu_startup_boost: self.boosts,
                ..Gates::default()
            },
            native_sidecars: self.sidecars,
            ..AdmissionConfig::default()
        };
        let mut object = pod(&json!({"requests": {"cpu": "1", "memory": "1Gi"}}));
        lay(&mut object, &self.pod);
        stage.patch(&object).unwrap_or_default()
    }
}

#[test]
fn odd_pods_get_the_patches_that_were_agreed() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("golden/odd_pods.json")).expect("cases");
    assert!(!cases.is_empty());
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| Some((case, case.patch())).filter(|(case, patch)| *patch != case.patch))
        .map(|(case, patch)| format!("{}: {patch}", case.name))
        .collect();
    assert!(
        wrong.is_empty(),
        "other patches than agreed:\n{}",
        wrong.join("\n")
    );
}

//! Patches of unusual pods: `golden/odd_pods.json`.

use admission::{AdmissionConfig, Gates};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::fixture::{Fixture, merge, pod};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Merged into an ordinary pod.
    pod: Value,
    /// Merged into an ordinary VPA object.
    #[serde(default)]
    vpa: Value,
    /// The gate `NativeSidecar`.
    #[serde(default)]
    sidecars: bool,
    #[serde(default)]
    boosts: bool,
    /// Null if the pod is admitted unchanged.
    patch: Value,
}

impl Case {
    fn patch(&self) -> Value {
        let vpa = if self.vpa.is_null() {
            json!({})
        } else {
            self.vpa.clone()
        };
        let mut fixture = Fixture::new().vpa("web", &vpa);
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
}

#[test]
fn unusual_pods_get_the_recorded_patches() {
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
        "patches differ from the recorded ones:\n{}",
        wrong.join("\n")
    );
}

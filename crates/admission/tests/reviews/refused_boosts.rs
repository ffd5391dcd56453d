//! Startup boosts for which the API server would refuse the pod.

use serde_json::{Value, json};

use crate::fixture::{Fixture, pod};

/// The CPU request and the annotation of the boost that a pod of 100m gets, with a recommendation of 500m,
/// a boost of factor 3, and this maximum of the namespace.
fn check(max: &str, request: &str, is_boosted: bool) {
    let boost = json!({"cpu": {"type": "Factor", "factor": 3}});
    let recommended = json!({"containerName": "app", "target": {"cpu": "500m"}});
    let object = json!({
        "spec": {"startupBoost": boost},
        "status": {"recommendation": {"containerRecommendations": [recommended]}},
    });
    let mut fixture = Fixture::new().vpa("web", &object);
    fixture.config.gates.cpu_startup_boost = true;
    let fixture = fixture.limit_range(&json!([{"type": "Container", "max": {"cpu": max}}]));
    let resources = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "100m"}});
    let patch = fixture.patch(&pod(&resources)).expect("a patch");
    let value = |path: &str| {
        let mut operations = patch.as_array().into_iter().flatten();
        let found = operations.find(|operation| operation["path"] == path);
        found.map_or(Value::Null, |operation| operation["value"].clone())
    };
    assert_eq!(
        value("/spec/containers/0/resources/requests/cpu"),
        request,
        "{patch:#}"
    );
    let annotation = value("/metadata/annotations/vpaCpuStartupBoost~1app");
    assert_eq!(annotation.is_string(), is_boosted, "{patch:#}");
}

#[test]
fn a_boost_that_a_limit_range_forbids_leaves_the_recommended_size() {
    check("2", "1500m", true);
    check("1", "500m", false);
}

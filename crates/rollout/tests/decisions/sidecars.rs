//! Native sidecars: init containers with `restartPolicy: Always`.

use rollout::{ActionKind, SkipReason};
use serde_json::{Value, json};

use super::fixture::{Fixture, evicted, only_action, reasons, requests};

/// A Deployment whose pods have native sidecars and are moved in this mode; without the pods.
fn workload(replicas: i32, mode: &str) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.settings.in_place = true;
    fixture.settings.native_sidecars = true;
    fixture.workload(
        "web",
        replicas,
        &json!({"minReplicas": 1, "updateMode": mode}),
    );
    fixture
}

/// A pod with the right size, whose sidecar asks for too little CPU.
fn fixture(mode: &str, observed: Option<&str>) -> Fixture {
    let mut fixture = workload(1, mode);
    fixture.recommend_also("web", "mesh", "200m");
    fixture.pod_with("web", "web-0", &json!({"cpu": "1"}), |pod: &mut Value| {
        pod["spec"]["initContainers"] = json!([
            {"name": "setup", "resources": {"requests": requests("10m", "10Mi")}},
            {"name": "mesh", "restartPolicy": "Always", "resources": {"requests": requests("10m", "100Mi")}},
        ]);
        if let Some(names) = observed {
            pod["metadata"]["annotations"] = json!({"vpaObservedContainers": names});
        }
    });
    fixture
}

#[test]
fn a_sidecar_outside_its_bounds_makes_its_pod_a_candidate_where_it_is_sized() {
    for (observed, expected) in [(None, 1), (Some("app, mesh"), 1), (Some("app"), 0)] {
        let mut fixture = fixture("Recreate", observed);
        assert_eq!(
            evicted(&fixture.first_pass()).len(),
            expected,
            "{observed:?}"
        );
        fixture.settings.native_sidecars = false;
        assert_eq!(evicted(&fixture.first_pass()).len(), 0, "{observed:?}");
    }
}

#[test]
fn a_sidecar_is_resized_where_it_runs() {
    let plan = fixture("InPlaceOrRecreate", None).first_pass();
    let ActionKind::Resize { patch, .. } = &only_action(&plan).kind else {
        panic!("a resize: {plan:?}")
    };
    let resources = "/spec/initContainers/1/resources/requests";
    let expected = json!([
        {"op": "add", "path": "/spec/containers/0/resources/requests/cpu", "value": "1"},
        {"op": "add", "path": "/spec/containers/0/resources/requests/memory", "value": "100Mi"},
        {"op": "add", "path": format!("{resources}/cpu"), "value": "200m"},
        {"op": "add", "path": format!("{resources}/memory"), "value": "100Mi"},
    ]);
    assert_eq!(json!(patch), expected);
}

#[test]
fn a_sidecar_that_restarts_makes_its_pod_wait_for_room_only_where_it_is_sized() {
    let cases = [(false, vec![]), (true, vec![SkipReason::EvictionTolerance])];
    for (native_sidecars, expected) in cases {
        // One of two pods is missing.
        let mut fixture = workload(2, "InPlaceOrRecreate");
        fixture.settings.in_place_skip_disruption_budget = true;
        fixture.settings.native_sidecars = native_sidecars;
        fixture.pod_with("web", "web-0", &json!({}), |pod| {
            pod["spec"]["initContainers"] = json!([{
                "name": "mesh", "restartPolicy": "Always",
                "resources": {"requests": requests("10m", "100Mi")},
                "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
            }]);
        });
        let plan = fixture.first_pass();
        let is_resize = |kind: &ActionKind| matches!(kind, ActionKind::Resize { .. });
        let resizes = plan
            .actions
            .iter()
            .filter(|action| is_resize(&action.kind))
            .count();
        let found = (resizes, reasons(&plan));
        assert_eq!(found, (1 - expected.len(), expected), "{native_sidecars}");
    }
}

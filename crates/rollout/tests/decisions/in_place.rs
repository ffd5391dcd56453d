//! Resizes where pods run, and what becomes of those that do not work.

mod preemption;
mod restore;

use std::time::Duration;

use k8s_openapi::api::core::v1;
use rollout::{
    Action, ActionKind, ActionOutcome, MAINTENANCE_WINDOW, RolloutState, SkipReason, VpaPauseReason,
};
use serde_json::{Value, json};
use view::Node;

use super::fixture::Fixture;

const ACCEPTED: ActionOutcome = ActionOutcome::Accepted {
    generation: Some(2),
};

fn fixture(mode: &str, replicas: i32) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.settings.in_place = true;
    fixture.settings.startup_boost = true;
    fixture.deployment(
        "web",
        replicas,
        &json!({"updateMode": mode, "minReplicas": 1}),
    );
    fixture
}

/// `evict`, or what the resize asks for.
fn requested(action: &Action) -> Vec<(String, String)> {
    let ActionKind::Resize { patch, .. } = &action.kind else {
        return vec![("evict".to_owned(), String::new())];
    };
    let list = serde_json::to_value(patch).expect("a patch");
    let text = |value: &Value| value.as_str().unwrap_or("{}").to_owned();
    let operations = list.as_array().expect("a list").iter();
    operations
        .map(|operation| {
            (
                text(&operation["path"]).replace("/spec/containers/0/resources/", ""),
                text(&operation["value"]),
            )
        })
        .collect()
}

fn decided(fixture: &Fixture, state: &mut RolloutState) -> Vec<Vec<(String, String)>> {
    fixture
        .decide(state)
        .actions
        .iter()
        .map(|action| requested(action))
        .collect()
}

/// Decides, and reports the same outcome of everything.
fn round(
    fixture: &Fixture,
    state: &mut RolloutState,
    outcome: &ActionOutcome,
) -> Vec<Vec<(String, String)>> {
    let plan = fixture.decide(state);
    for action in &plan.actions {
        state.begin(action, fixture.now);
        state.end(action, outcome, fixture.now);
    }
    plan.actions
        .iter()
        .map(|action| requested(action))
        .collect()
}

fn to_a_core() -> Vec<(String, String)> {
    vec![
        ("requests/cpu".to_owned(), "1".to_owned()),
        ("requests/memory".to_owned(), "100Mi".to_owned()),
    ]
}

fn evict() -> Vec<(String, String)> {
    vec![("evict".to_owned(), String::new())]
}

fn add_condition(pod: &mut Value, condition: Value) {
    pod["status"]["conditions"]
        .as_array_mut()
        .expect("a list")
        .push(condition);
}

fn pending(reason: &str, since: &str) -> Value {
    json!({"type": "PodResizePending", "status": "True", "reason": reason, "lastTransitionTime": since})
}

#[test]
fn a_pod_is_resized_once_and_then_waited_for() {
    for mode in ["InPlaceOrRecreate", "InPlace"] {
        let mut fixture = fixture(mode, 1);
        let mut state = RolloutState::default();
        assert_eq!(round(&fixture, &mut state, &ACCEPTED), [to_a_core()]);
        assert!(
            decided(&fixture, &mut state).is_empty(),
            "the view does not show it yet"
        );
        fixture.pod_with("web", "web-0", &json!({"cpu": "1"}), |pod| {
            pod["metadata"]["generation"] = json!(2);
            pod["status"]["containerStatuses"] = json!([{
                "name": "app", "ready": true, "restartCount": 0, "image": "", "imageID": "",
                "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
            }]);
        });
        let plan = fixture.decide(&mut state);
        assert!(plan.actions.is_empty(), "the kubelet is not there yet");
        assert_eq!(Fixture::reasons(&plan), [SkipReason::ResizePending]);
    }
}

#[test]
fn what_the_api_server_refuses_is_evicted_or_tried_later() {
    let mut state = RolloutState::default();
    let recreate = fixture("InPlaceOrRecreate", 1);
    assert_eq!(
        round(&recreate, &mut state, &ActionOutcome::Rejected),
        [to_a_core()]
    );
    assert_eq!(decided(&recreate, &mut state), [evict()]);

    let (mut state, mut in_place) = (RolloutState::default(), fixture("InPlace", 1));
    assert_eq!(
        round(&in_place, &mut state, &ActionOutcome::Rejected),
        [to_a_core()]
    );
    assert!(decided(&in_place, &mut state).is_empty());
    in_place.now.monotonic += Duration::from_mins(1);
    assert_eq!(decided(&in_place, &mut state), [to_a_core()]);
}

#[test]
fn a_resize_that_gets_nowhere_becomes_an_eviction() {
    let check = |condition: Value, expected: &[Vec<(String, String)>]| {
        let mut fixture = fixture("InPlaceOrRecreate", 1);
        fixture.pod_with("web", "web-0", &json!({}), |pod| {
            add_condition(pod, condition.clone());
        });
        assert_eq!(
            decided(&fixture, &mut RolloutState::default()),
            expected,
            "{condition}"
        );
    };
    check(pending("Deferred", "2026-01-01T11:56:00Z"), &[]);
    check(pending("Deferred", "2026-01-01T11:54:00Z"), &[evict()]);
    check(pending("Infeasible", "2026-01-01T12:00:00Z"), &[evict()]);
    let progress = |since: &str, reason: &str| json!({"type": "PodResizeInProgress", "status": "True", "reason": reason, "lastTransitionTime": since});
    check(progress("2026-01-01T11:30:00Z", ""), &[]);
    check(progress("2026-01-01T10:59:00Z", ""), &[evict()]);
    check(progress("2026-01-01T12:00:00Z", "Error"), &[evict()]);
}

#[test]
fn in_place_only_never_evicts_and_waits_for_room() {
    let mut fixture = fixture("InPlace", 1);
    let asked = |pod: &mut Value| add_condition(pod, pending("Deferred", "2026-01-01T08:00:00Z"));
    fixture.pod_with("web", "web-0", &json!({}), asked);
    assert_eq!(
        decided(&fixture, &mut RolloutState::default()),
        [to_a_core()],
        "what is asked for now replaces what waits"
    );
    fixture.pod_with("web", "web-0", &json!({"cpu": "1"}), asked);
    assert!(decided(&fixture, &mut RolloutState::default()).is_empty());
}

#[test]
fn a_restart_needs_the_budgets_that_an_eviction_needs() {
    let mut fixture = fixture("InPlaceOrRecreate", 4);
    for index in 0..4 {
        fixture.pod_with("web", &format!("web-{index}"), &json!({}), |pod| {
            pod["spec"]["containers"][0]["resizePolicy"] =
                json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
        });
    }
    assert_eq!(
        decided(&fixture, &mut RolloutState::default()).len(),
        2,
        "half of them"
    );
    fixture.settings.in_place_skip_disruption_budget = true;
    assert_eq!(
        decided(&fixture, &mut RolloutState::default()).len(),
        2,
        "not what disrupts nothing"
    );
    fixture.budget("web", 1);
    assert_eq!(decided(&fixture, &mut RolloutState::default()).len(), 1);
    fixture.budget("web", 0);
    assert_eq!(decided(&fixture, &mut RolloutState::default()).len(), 0);
}

/// Resizes of memory restart the container.
fn restarting(pod: &mut Value) {
    pod["spec"]["containers"][0]["resizePolicy"] =
        json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
}

#[test]
fn a_resize_that_the_kubelet_refused_is_replaced_only_within_the_budget() {
    let mut fixture = fixture("InPlace", 2);
    let refused = |pod: &mut Value| {
        restarting(pod);
        pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!("200Mi");
        add_condition(pod, pending("Infeasible", "2026-01-01T12:00:00Z"));
    };
    fixture.pod_with("web", "web-0", &json!({}), refused);
    fixture.pod("web", "web-1", &json!({"cpu": "1", "ready": false}));
    let plan = fixture.decide(&mut RolloutState::default());
    assert_eq!(
        (plan.actions.len(), Fixture::reasons(&plan)),
        (0, vec![SkipReason::EvictionTolerance]),
        "only one of two serves"
    );
    fixture.pod("web", "web-1", &json!({"cpu": "1"}));
    assert_eq!(
        decided(&fixture, &mut RolloutState::default()),
        [to_a_core()]
    );
}

#[test]
fn a_resize_that_meets_too_many_requests_is_tried_again_later() {
    let mut fixture = fixture("InPlaceOrRecreate", 1);
    let mut state = RolloutState::default();
    assert_eq!(
        round(
            &fixture,
            &mut state,
            &ActionOutcome::TooManyRequests { retry_after: None }
        ),
        [to_a_core()]
    );
    let plan = fixture.decide(&mut state);
    assert_eq!(
        (plan.actions.len(), Fixture::reasons(&plan)),
        (0, vec![SkipReason::BackingOff])
    );
    assert_eq!(plan.wake_in, Some(Duration::from_secs(1)));
    fixture.now.monotonic += Duration::from_secs(1);
    assert_eq!(decided(&fixture, &mut state), [to_a_core()]);
}

#[test]
fn nothing_is_looked_at_every_second_for_what_only_a_change_can_help() {
    // Too few pods for an eviction.
    let mut fixture = fixture("InPlaceOrRecreate", 2);
    fixture.pod_with("web", "web-0", &json!({}), |pod| {
        add_condition(pod, pending("Deferred", "2026-01-01T08:00:00Z"));
    });
    fixture.pod("web", "web-1", &json!({"cpu": "1", "ready": false}));
    let plan = fixture.decide(&mut RolloutState::default());
    assert_eq!(
        (Fixture::reasons(&plan), plan.wake_in),
        (vec![SkipReason::ResizePending], None)
    );

    fixture.pod("web", "web-0", &json!({}));
    let mut state = RolloutState::default();
    assert_eq!(
        round(&fixture, &mut state, &ActionOutcome::Rejected),
        [to_a_core()]
    );
    let plan = fixture.decide(&mut state);
    assert_eq!(
        (Fixture::reasons(&plan), plan.wake_in),
        (vec![SkipReason::EvictionTolerance], None)
    );
}

#[test]
fn nodes_that_have_as_much_are_not_tried_again() {
    let mut fixture = fixture("InPlace", 2);
    let node = json!({"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "500m", "memory": "1Gi"}}});
    let node: v1::Node = serde_json::from_value(node).expect("a node");
    fixture
        .view
        .nodes
        .apply(std::sync::Arc::new(Node::from_k8s(node)));
    let mut state = RolloutState::default();
    assert_eq!(
        round(&fixture, &mut state, &ActionOutcome::Infeasible).len(),
        1,
        "one may be taken at a time"
    );
    let plan = fixture.decide(&mut state);
    assert!(plan.actions.is_empty());
    assert_eq!(Fixture::reasons(&plan), [SkipReason::KnownInfeasible]);
}

#[test]
fn a_resize_never_changes_the_quality_of_service() {
    let best_effort = |fixture: &mut Fixture| {
        fixture.pod_with("web", "web-0", &json!({}), |pod| {
            pod["spec"]["containers"][0]["resources"] = json!({});
        });
    };
    let mut fixture_ = fixture("InPlace", 1);
    best_effort(&mut fixture_);
    assert_eq!(
        Fixture::reasons(&fixture_.decide(&mut RolloutState::default())),
        [SkipReason::QosClass]
    );
    let mut fixture_ = fixture("InPlaceOrRecreate", 1);
    best_effort(&mut fixture_);
    assert_eq!(decided(&fixture_, &mut RolloutState::default()), [evict()]);
}

#[test]
fn nothing_is_done_outside_the_maintenance_window() {
    let mut fixture = fixture("Recreate", 1);
    let mut check = |annotation: &str, actions: usize| {
        fixture.annotate("web", MAINTENANCE_WINDOW, annotation);
        let plan = fixture.decide(&mut RolloutState::default());
        assert_eq!(plan.actions.len(), actions, "{annotation}");
        plan.paused.first().map(|held| held.reason.clone())
    };
    assert_eq!(check("0 12 * * *; for=1h", 1), None);
    let opens_in = Duration::from_hours(1);
    assert_eq!(
        check("0 13 * * *; for=1h", 0),
        Some(VpaPauseReason::OutsideWindow { opens_in })
    );
    assert!(matches!(
        check("whenever", 0),
        Some(VpaPauseReason::InvalidWindow(_))
    ));
}

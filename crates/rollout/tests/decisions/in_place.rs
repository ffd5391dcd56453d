//! In-place resizes, and the actions after deferred, infeasible or rejected ones.

mod left_out;
mod limit_modes;
mod memory_in_use;
mod preemption;
mod restore;

use std::collections::BTreeMap;
use std::time::Duration;

use rollout::{
    Action, ActionKind, ActionOutcome, MAINTENANCE_WINDOW, Plan, SkipReason, VpaPauseReason,
};
use serde_json::{Value, json};

use super::fixture::{
    Fixture, TOO_MANY_REQUESTS, TOO_SMALL, not_resized_yet, pending, push, reasons, requests, say,
    set_requests,
};
use super::oom::killed_at;

const ACCEPTED: ActionOutcome = ActionOutcome::Accepted {
    generation: Some(2),
};
/// Longer ago than a resize may be pending.
const LONG_AGO: &str = "2026-01-01T08:00:00Z";

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

/// Requests of a resize, by paths; `evict` for an eviction.
type Requested = Vec<(String, String)>;

fn requested(action: &Action) -> Requested {
    let ActionKind::Resize { patch, .. } = &action.kind else {
        return evict();
    };
    let list = serde_json::to_value(patch).expect("a patch");
    let text = |value: &Value| value.as_str().unwrap_or("{}").to_owned();
    let path = |value: &Value| text(value).replace("/spec/containers/0/resources/", "");
    let operations = list.as_array().expect("a list").iter();
    operations
        .map(|operation| (path(&operation["path"]), text(&operation["value"])))
        .collect()
}

fn all_requested(plan: &Plan) -> Vec<Requested> {
    plan.actions
        .iter()
        .map(|action| requested(action))
        .collect()
}

fn annotations(action: &Action) -> &BTreeMap<String, Option<String>> {
    let ActionKind::Resize { annotations, .. } = &action.kind else {
        panic!("a resize: {action:?}")
    };
    annotations
}

fn to_a_core() -> Requested {
    requested_as(&[("requests/cpu", "1"), ("requests/memory", "100Mi")])
}

fn evict() -> Requested {
    requested_as(&[("evict", "")])
}

fn requested_as(values: &[(&str, &str)]) -> Requested {
    values
        .iter()
        .map(|(path, value)| ((*path).to_owned(), (*value).to_owned()))
        .collect()
}

/// Checks what the first pass of an updater asks for.
#[track_caller]
fn check_first(fixture: &Fixture, expected: &[Requested], when: &str) {
    assert_eq!(all_requested(&fixture.first_pass()), expected, "{when}");
}

#[track_caller]
fn resize(fixture: &mut Fixture, outcome: &ActionOutcome) {
    let plan = fixture.pass();
    assert_eq!(all_requested(&plan), [to_a_core()]);
    fixture.report(&plan, outcome);
}

#[test]
fn a_pod_is_resized_once_and_then_waited_for() {
    for mode in ["InPlaceOrRecreate", "InPlace"] {
        let mut fixture = fixture(mode, 1);
        resize(&mut fixture, &ACCEPTED);
        fixture.check_idle("the view does not show it yet");
        fixture.pod_with("web", "web-0", &json!({"cpu": "1"}), |pod| {
            pod["metadata"]["generation"] = json!(2);
            not_resized_yet(pod);
        });
        fixture.check_skipped(SkipReason::ResizePending);
    }
}

#[test]
fn what_the_api_server_refuses_is_evicted_or_tried_later() {
    let mut recreate = fixture("InPlaceOrRecreate", 1);
    resize(&mut recreate, &ActionOutcome::Rejected);
    assert_eq!(all_requested(&recreate.pass()), [evict()]);

    let mut in_place = fixture("InPlace", 1);
    resize(&mut in_place, &ActionOutcome::Rejected);
    in_place.check_idle("too early");
    in_place.now.monotonic += Duration::from_mins(1);
    assert_eq!(all_requested(&in_place.pass()), [to_a_core()]);
}

#[test]
fn a_resize_that_a_quota_forbids_is_tried_again_and_never_an_eviction() {
    for mode in ["InPlaceOrRecreate", "InPlace"] {
        let mut fixture = fixture(mode, 1);
        resize(&mut fixture, &ActionOutcome::Forbidden);
        fixture.check_skipped(SkipReason::ResizeForbidden);
        fixture.now.monotonic += Duration::from_mins(1);
        assert_eq!(all_requested(&fixture.pass()), [to_a_core()], "{mode}");
    }
}

#[test]
fn what_one_node_refuses_for_its_policy_another_of_its_size_may_hold() {
    const CPU_MANAGER: &str =
        "Resize is infeasible for Guaranteed Pods alongside CPU Manager policy \"static\"";
    for (message, expected) in [(CPU_MANAGER, 1), (TOO_SMALL, 0)] {
        let mut fixture = fixture("InPlace", 2);
        fixture.node("500m", "1Gi");
        fixture.pod_with("web", "web-0", &json!({"cpu": "1"}), |pod| {
            not_resized_yet(pod);
            pending(pod, "Infeasible", LONG_AGO);
            say(pod, message);
        });
        fixture.pod("web", "web-1", &json!({}));
        fixture.pass();
        assert_eq!(all_requested(&fixture.pass()).len(), expected, "{message}");
    }
}

#[test]
fn a_resize_that_gets_nowhere_becomes_an_eviction() {
    for (kind, reason, since, expected) in [
        (
            "PodResizePending",
            "Deferred",
            "2026-01-01T11:56:00Z",
            vec![],
        ),
        (
            "PodResizePending",
            "Deferred",
            "2026-01-01T11:54:00Z",
            vec![evict()],
        ),
        (
            "PodResizePending",
            "Infeasible",
            "2026-01-01T12:00:00Z",
            vec![evict()],
        ),
        ("PodResizeInProgress", "", "2026-01-01T11:30:00Z", vec![]),
        (
            "PodResizeInProgress",
            "",
            "2026-01-01T10:59:00Z",
            vec![evict()],
        ),
        (
            "PodResizeInProgress",
            "Error",
            "2026-01-01T12:00:00Z",
            vec![evict()],
        ),
    ] {
        let mut fixture = fixture("InPlaceOrRecreate", 1);
        fixture.pod_with("web", "web-0", &json!({}), |pod| {
            let condition = json!({"type": kind, "status": "True", "reason": reason, "lastTransitionTime": since});
            push(&mut pod["status"]["conditions"], condition);
        });
        check_first(&fixture, &expected, &format!("{kind} {reason} {since}"));
    }
}

/// The node of a pod that is OOM killed has no room for more memory; another node may have it.
#[test]
fn a_deferred_resize_becomes_an_eviction_once_a_later_run_is_killed() {
    for (mode, started, expected) in [
        ("InPlaceOrRecreate", "2026-01-01T11:58:00Z", vec![]),
        ("InPlaceOrRecreate", "2026-01-01T11:59:30Z", vec![evict()]),
        ("InPlace", "2026-01-01T11:59:30Z", vec![]),
    ] {
        let mut fixture = fixture(mode, 1);
        fixture.pod_with("web", "web-0", &json!({"cpu": "1"}), |pod| {
            killed_at(pod, started, "2026-01-01T11:59:59Z");
            let before = requests("1", "50Mi");
            pod["status"]["containerStatuses"][0]["resources"] =
                json!({"requests": before, "limits": before});
            pod["metadata"]["annotations"]["vpaInPlaceUpdated"] = "true".into();
            pending(pod, "Deferred", "2026-01-01T11:59:00Z");
        });
        // The kill is shown to others for a second.
        fixture.pass();
        fixture.now.monotonic += Duration::from_secs(1);
        let requested = all_requested(&fixture.pass());
        assert_eq!(requested, expected, "{mode} {started}");
    }
}

#[test]
fn in_place_only_never_evicts_and_waits_for_room() {
    let mut fixture = fixture("InPlace", 1);
    let asked = |pod: &mut Value| pending(pod, "Deferred", LONG_AGO);
    fixture.pod_with("web", "web-0", &json!({}), asked);
    check_first(
        &fixture,
        &[to_a_core()],
        "what is asked for now replaces what waits",
    );
    fixture.pod_with("web", "web-0", &json!({"cpu": "1"}), asked);
    check_first(&fixture, &[], "it waits for this");
}

#[test]
fn in_place_a_failed_resize_is_replaced_by_another_recommendation() {
    for (kind, reason) in [
        ("PodResizeInProgress", "Error"),
        ("PodResizeInProgress", ""),
        ("PodResizePending", "Unheard"),
    ] {
        let mut fixture = fixture("InPlace", 1);
        let failed = |pod: &mut Value| {
            let message = if reason.is_empty() { "" } else { "no" };
            let condition = json!({"type": kind, "status": "True", "reason": reason,
                "message": message, "lastTransitionTime": LONG_AGO});
            push(&mut pod["status"]["conditions"], condition);
        };
        // 100m are asked for, one core is recommended now.
        fixture.pod_with("web", "web-0", &json!({}), failed);
        check_first(&fixture, &[to_a_core()], &format!("{kind} {reason}"));
        fixture.pod_with("web", "web-0", &json!({"cpu": "1"}), failed);
        check_first(&fixture, &[], &format!("{kind} {reason} of the same"));
    }
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
    assert_eq!(fixture.first_pass().actions.len(), 2, "half of them");
    fixture.settings.in_place_skip_disruption_budget = true;
    assert_eq!(
        fixture.first_pass().actions.len(),
        2,
        "not what disrupts nothing"
    );
    for allowed in [1, 0] {
        fixture.budget("web", allowed);
        assert_eq!(fixture.first_pass().actions.len(), allowed as usize);
    }
}

#[test]
fn a_deferred_restart_that_uses_up_the_budget_is_replaced_by_an_eviction() {
    let mut fixture = fixture("InPlaceOrRecreate", 4);
    for index in 0..4 {
        fixture.pod_with(
            "web",
            &format!("web-{index}"),
            &json!({"cpu": "1"}),
            |pod| {
                pod["spec"]["containers"][0]["resizePolicy"] =
                    json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
                if index < 2 {
                    not_resized_yet(pod);
                    pending(pod, "Deferred", LONG_AGO);
                }
            },
        );
    }
    // The budget requires two pods, and the two that wait for their restart count as unavailable.
    fixture.budget("web", 2);
    fixture.check_evicted(&["web-0", "web-1"], "the timeout is over");
    fixture.budget("web", 0);
    fixture.check_skipped(SkipReason::DisruptionBudget);
}

/// Resizes of memory restart the container.
fn restarting(pod: &mut Value) {
    pod["spec"]["containers"][0]["resizePolicy"] =
        json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
}

#[test]
fn a_resize_that_the_kubelet_refused_is_replaced_only_within_the_budget() {
    let mut fixture = fixture("InPlace", 2);
    fixture.pod_with("web", "web-0", &json!({}), |pod| {
        restarting(pod);
        set_requests(pod, "100m", "200Mi");
        pending(pod, "Infeasible", "2026-01-01T12:00:00Z");
    });
    fixture.pod("web", "web-1", &json!({"cpu": "1", "ready": false}));
    // Only one of two serves.
    fixture.check_skipped(SkipReason::EvictionTolerance);
    fixture.pod("web", "web-1", &json!({"cpu": "1"}));
    check_first(&fixture, &[to_a_core()], "both serve");
}

#[test]
fn a_resize_that_meets_too_many_requests_is_tried_again_later() {
    let mut fixture = fixture("InPlaceOrRecreate", 1);
    resize(&mut fixture, &TOO_MANY_REQUESTS);
    let plan = fixture.check_skipped(SkipReason::BackingOff);
    assert_eq!(plan.wake_in, Some(Duration::from_secs(1)));
    fixture.now.monotonic += Duration::from_secs(1);
    assert_eq!(all_requested(&fixture.pass()), [to_a_core()]);
}

#[test]
fn nothing_is_looked_at_every_second_for_what_only_a_change_can_help() {
    // Too few pods for an eviction.
    let mut fixture = fixture("InPlaceOrRecreate", 2);
    fixture.pod_with("web", "web-0", &json!({}), |pod| {
        pending(pod, "Deferred", LONG_AGO);
    });
    fixture.pod("web", "web-1", &json!({"cpu": "1", "ready": false}));
    let plan = fixture.first_pass();
    assert_eq!(
        (reasons(&plan), plan.wake_in),
        (vec![SkipReason::ResizePending], None)
    );

    fixture.pod("web", "web-0", &json!({}));
    resize(&mut fixture, &ActionOutcome::Rejected);
    let plan = fixture.pass();
    assert_eq!(
        (reasons(&plan), plan.wake_in),
        (vec![SkipReason::EvictionTolerance], None)
    );
}

#[test]
fn nodes_that_have_as_much_are_not_tried_again() {
    let mut fixture = fixture("InPlace", 2);
    fixture.node("500m", "1Gi");
    // One may be taken at a time.
    resize(&mut fixture, &ActionOutcome::Infeasible);
    fixture.check_skipped(SkipReason::KnownInfeasible);
}

#[test]
fn a_resize_never_changes_the_quality_of_service() {
    for (mode, expected) in [("InPlace", vec![]), ("InPlaceOrRecreate", vec![evict()])] {
        let mut fixture = fixture(mode, 1);
        fixture.pod_with("web", "web-0", &json!({}), |pod| {
            pod["spec"]["containers"][0]["resources"] = json!({});
        });
        let plan = fixture.first_pass();
        assert_eq!(all_requested(&plan), expected, "{mode}");
        if expected.is_empty() {
            assert_eq!(reasons(&plan), [SkipReason::QosClass]);
        }
    }
}

#[test]
fn nothing_is_done_outside_the_maintenance_window() {
    let mut fixture = fixture("Recreate", 1);
    let mut check = |annotation: &str, actions: usize| {
        fixture.annotate("web", MAINTENANCE_WINDOW, annotation);
        let plan = fixture.first_pass();
        assert_eq!(plan.actions.len(), actions, "{annotation}");
        plan.paused.first().map(|held| held.reason.clone())
    };
    assert_eq!(check("0 12 * * *; for=1h", 1), None);
    let closed = VpaPauseReason::OutsideWindow {
        opens_in: Duration::from_hours(1),
    };
    assert_eq!(check("0 13 * * *; for=1h", 0), Some(closed));
    assert!(matches!(
        check("whenever", 0),
        Some(VpaPauseReason::InvalidWindow(_))
    ));
}

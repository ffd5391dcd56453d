//! The end of startup boosts, and memory restored after OOM kills.

use std::time::Duration;

use rollout::{ActionKind, ActionReason, RESIZED_FROM, REVERTED_AT, RolloutState, SkipReason};
use serde_json::{Value, json};

use super::{decided, fixture, requested, restarting, to_a_core};
use crate::fixture::Fixture;

/// The container was OOM killed half a minute after noon, and runs again.
fn killed_at_noon() -> Value {
    json!([{
        "name": "app", "ready": true, "restartCount": 1, "image": "", "imageID": "",
        "lastState": {"terminated": {
            "exitCode": 137, "reason": "OOMKilled",
            "startedAt": "2026-01-01T12:00:01Z", "finishedAt": "2026-01-01T12:00:30Z",
        }},
    }])
}

#[test]
fn a_startup_boost_ends_after_its_duration() {
    let mut fixture = fixture("InPlaceOrRecreate", 1);
    let boost = |fixture: &mut Fixture, ready_at: &str| {
        fixture.pod_with("web", "web-0", &json!({"cpu": "3"}), |pod| {
            pod["metadata"]["annotations"] =
                json!({"vpaCpuStartupBoost/app": "{\"requests\":{\"cpu\":\"100m\"}}"});
            pod["status"]["conditions"][0]["lastTransitionTime"] = json!(ready_at);
        });
    };
    fixture.boost("web", 60);
    boost(&mut fixture, "2026-01-01T11:59:30Z");
    let plan = fixture.decide(&mut RolloutState::default());
    assert_eq!(
        (plan.actions.len(), plan.wake_in),
        (0, Some(Duration::from_secs(30)))
    );
    boost(&mut fixture, "2026-01-01T11:58:30Z");
    let plan = fixture.decide(&mut RolloutState::default());
    let [action] = plan.actions.as_slice() else {
        panic!("one act: {plan:?}")
    };
    assert_eq!(
        (action.reason, requested(action)),
        (ActionReason::BoostExpired, to_a_core())
    );
    let ActionKind::Resize { annotations, .. } = &action.kind else {
        panic!("a resize")
    };
    assert_eq!(annotations.get("vpaCpuStartupBoost/app"), Some(&None));
}

#[test]
fn memory_is_restored_and_kept_after_an_oom_kill() {
    let mut fixture = fixture("InPlaceOrRecreate", 1);
    fixture.pod_with("web", "web-0", &json!({}), |pod| {
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": "100m", "memory": "300Mi"}});
    });
    let plan = fixture.decide(&mut RolloutState::default());
    let [action] = plan.actions.as_slice() else {
        panic!("one act: {plan:?}")
    };
    let ActionKind::Resize { annotations, .. } = &action.kind else {
        panic!("a resize: {plan:?}")
    };
    let note = annotations[RESIZED_FROM].clone().expect("a note");
    assert!(note.contains("300Mi"), "{note}");

    let killed = |fixture: &mut Fixture, annotations: Value, memory: &str| {
        fixture.pod_with("web", "web-0", &json!({}), |pod| {
            pod["metadata"]["annotations"] = annotations;
            pod["spec"]["containers"][0]["resources"] =
                json!({"requests": {"cpu": "1", "memory": memory}});
            pod["status"]["containerStatuses"] = killed_at_noon();
        });
    };
    fixture.now.wall = "2026-01-01T12:01:00Z".parse().expect("a time");
    killed(
        &mut fixture,
        json!({"plimsoll.dev/resized-from": note}),
        "100Mi",
    );
    let plan = fixture.decide(&mut RolloutState::default());
    let [action] = plan.actions.as_slice() else {
        panic!("one act: {plan:?}")
    };
    assert_eq!(
        (action.reason, requested(action)),
        (
            ActionReason::Revert,
            vec![("requests/memory".to_owned(), "300Mi".to_owned())]
        )
    );

    killed(
        &mut fixture,
        json!({REVERTED_AT: "2026-01-01T12:01:00Z"}),
        "300Mi",
    );
    let plan = fixture.decide(&mut RolloutState::default());
    assert!(plan.actions.is_empty(), "{plan:?}");
    assert_eq!(Fixture::reasons(&plan), [SkipReason::RecentlyReverted]);
}

/// A pod that asks for so much memory, had 300 MiB until noon, and was killed half a minute later.
fn killed(fixture: &mut Fixture, memory: &str, change: impl FnOnce(&mut Value)) {
    let note =
        r#"{"at":"2026-01-01T12:00:00Z","containers":{"app":{"requests":{"memory":"300Mi"}}}}"#;
    fixture.now.wall = "2026-01-01T12:01:00Z".parse().expect("a time");
    fixture.pod_with("web", "web-0", &json!({}), |pod| {
        pod["metadata"]["annotations"] = json!({"plimsoll.dev/resized-from": note});
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": "1", "memory": memory}});
        pod["status"]["containerStatuses"] = killed_at_noon();
        change(pod);
    });
}

#[test]
fn memory_is_restored_with_a_restart_only_within_the_budget() {
    let mut fixture = fixture("InPlaceOrRecreate", 2);
    killed(&mut fixture, "100Mi", restarting);
    fixture.pod("web", "web-1", &json!({"cpu": "1", "ready": false}));
    assert_eq!(
        decided(&fixture, &mut RolloutState::default()).len(),
        0,
        "it is the only one that serves"
    );
    killed(&mut fixture, "100Mi", |pod| {
        restarting(pod);
        pod["status"]["conditions"][0]["status"] = json!("False");
    });
    assert_eq!(
        decided(&fixture, &mut RolloutState::default()).len(),
        1,
        "it does not serve anyhow"
    );
}

#[test]
fn nothing_is_restored_to_a_pod_that_has_more_already() {
    let mut fixture = fixture("InPlaceOrRecreate", 1);
    killed(&mut fixture, "400Mi", |_| ());
    let plan = fixture.decide(&mut RolloutState::default());
    let [action] = plan.actions.as_slice() else {
        panic!("one act: {plan:?}")
    };
    assert_eq!(
        (action.reason, requested(action)),
        (ActionReason::QuickOom, to_a_core())
    );
    let ActionKind::Resize { annotations, .. } = &action.kind else {
        panic!("a resize")
    };
    let note = annotations[RESIZED_FROM].as_deref().expect("a note");
    assert!(
        note.contains("2026-01-01T12:01:00Z") && note.contains("400Mi"),
        "{note}"
    );
}

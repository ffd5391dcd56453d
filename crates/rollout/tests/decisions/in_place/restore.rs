//! The end of startup boosts, and memory restored after OOM kills.

use std::time::Duration;

use rollout::{ActionOutcome, ActionReason, RESIZED_FROM, REVERTED_AT, SkipReason};
use serde_json::{Value, json};

use super::{annotations, fixture, requested, requested_as, restarting, to_a_core};
use crate::fixture::{Fixture, boosted, only_action, set_requests};
use crate::oom::killed_at;

#[test]
fn a_startup_boost_ends_after_its_duration() {
    let mut fixture = fixture("InPlaceOrRecreate", 1);
    let boost = |fixture: &mut Fixture, ready_at: &str| {
        fixture.pod_with("web", "web-0", &json!({"cpu": "3"}), |pod| {
            boosted(pod, "100m", ready_at);
        });
    };
    fixture.boost("web", 60);
    boost(&mut fixture, "2026-01-01T11:59:30Z");
    let plan = fixture.first_pass();
    assert_eq!(
        (plan.actions.len(), plan.wake_in),
        (0, Some(Duration::from_secs(30)))
    );
    boost(&mut fixture, "2026-01-01T11:58:30Z");
    let plan = fixture.first_pass();
    let action = only_action(&plan);
    assert_eq!(
        (action.reason, requested(action)),
        (ActionReason::BoostExpired, to_a_core())
    );
    assert_eq!(
        annotations(action).get("vpaCpuStartupBoost/app"),
        Some(&None)
    );
}

/// A minute after noon, the only pod has these annotations and this memory. Half a minute before
/// that, its container was OOM killed, and runs again.
fn killed(fixture: &mut Fixture, annotations: &Value, memory: &str, change: impl Fn(&mut Value)) {
    fixture.now.wall = "2026-01-01T12:01:00Z".parse().expect("a time");
    fixture.pod_with("web", "web-0", &json!({}), |pod| {
        pod["metadata"]["annotations"] = annotations.clone();
        set_requests(pod, "1", memory);
        killed_at(pod, "2026-01-01T12:00:01Z", "2026-01-01T12:00:30Z");
        change(pod);
    });
}

/// The annotation of a pod that had 300 MiB until noon.
fn resized_at_noon() -> Value {
    let note =
        r#"{"at":"2026-01-01T12:00:00Z","containers":{"app":{"requests":{"memory":"300Mi"}}}}"#;
    json!({"plimsoll.dev/resized-from": note})
}

#[test]
fn memory_is_restored_and_kept_after_an_oom_kill() {
    let mut fixture = fixture("InPlaceOrRecreate", 1);
    fixture.pod_with("web", "web-0", &json!({}), |pod| {
        set_requests(pod, "100m", "300Mi");
    });
    let plan = fixture.first_pass();
    let note = annotations(only_action(&plan))[RESIZED_FROM]
        .clone()
        .expect("a note");
    assert!(note.contains("300Mi"), "{note}");

    killed(
        &mut fixture,
        &json!({"plimsoll.dev/resized-from": note}),
        "100Mi",
        |_| (),
    );
    let plan = fixture.first_pass();
    let action = only_action(&plan);
    let expected = requested_as(&[("requests/memory", "300Mi")]);
    assert_eq!(
        (action.reason, requested(action)),
        (ActionReason::Revert, expected)
    );

    killed(
        &mut fixture,
        &json!({REVERTED_AT: "2026-01-01T12:01:00Z"}),
        "300Mi",
        |_| (),
    );
    fixture.check_skipped(SkipReason::RecentlyReverted);
}

#[test]
fn memory_is_restored_with_a_restart_only_within_the_budget() {
    let mut fixture = fixture("InPlaceOrRecreate", 2);
    killed(&mut fixture, &resized_at_noon(), "100Mi", restarting);
    fixture.pod("web", "web-1", &json!({"cpu": "1", "ready": false}));
    assert_eq!(
        fixture.first_pass().actions.len(),
        0,
        "it is the only one that serves"
    );
    killed(&mut fixture, &resized_at_noon(), "100Mi", |pod| {
        restarting(pod);
        pod["status"]["conditions"][0]["status"] = json!("False");
    });
    assert_eq!(
        fixture.first_pass().actions.len(),
        1,
        "it does not serve anyhow"
    );
}

#[test]
fn a_killed_pod_that_has_more_than_its_target_keeps_it() {
    let mut fixture = fixture("InPlaceOrRecreate", 1);
    killed(&mut fixture, &resized_at_noon(), "400Mi", |_| ());
    fixture.check_skipped(SkipReason::RecentlyReverted);
}

#[test]
fn an_oom_kill_in_the_second_of_the_resize_follows_it() {
    let mut fixture = fixture("InPlaceOrRecreate", 1);
    // A kubelet reports the end of a container in whole seconds.
    let note =
        r#"{"at":"2026-01-01T12:00:30.7Z","containers":{"app":{"requests":{"memory":"300Mi"}}}}"#;
    killed(&mut fixture, &json!({RESIZED_FROM: note}), "100Mi", |_| ());
    let plan = fixture.first_pass();
    assert_eq!(only_action(&plan).reason, ActionReason::Revert);
}

#[test]
fn restored_memory_stays_before_the_annotation_is_seen() {
    let mut fixture = fixture("InPlaceOrRecreate", 1);
    killed(&mut fixture, &resized_at_noon(), "100Mi", |_| ());
    let plan = fixture.pass();
    let reverted = annotations(only_action(&plan))[REVERTED_AT]
        .clone()
        .expect("a time");
    let accepted = ActionOutcome::Accepted {
        generation: Some(2),
    };
    fixture.report(&plan, &accepted);
    let resized = |pod: &mut Value| pod["metadata"]["generation"] = json!(2);
    killed(&mut fixture, &resized_at_noon(), "300Mi", resized);
    fixture.check_skipped(SkipReason::ResizePending);

    killed(
        &mut fixture,
        &json!({REVERTED_AT: reverted}),
        "300Mi",
        resized,
    );
    fixture.check_skipped(SkipReason::RecentlyReverted);
}

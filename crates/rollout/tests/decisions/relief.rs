//! Acts that take back what an earlier one did, while all others are paused.

use rollout::{Action, ActionReason, MAINTENANCE_WINDOW, PauseReason};
use serde_json::{Value, json};

use super::fixture::{Fixture, boosted, evicted, only_action};

/// A window that is closed at the time of the fixture.
const CLOSED: &str = "0 13 * * *; for=1h";

/// Two pods in mode `InPlaceOrRecreate`, of which the first is changed.
fn fixture(change: impl FnOnce(&mut Value)) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.settings.startup_boost = true;
    fixture.workload("web", 2, &json!({"updateMode": "InPlaceOrRecreate"}));
    fixture.boost("web", 0);
    fixture.pod("web", "web-1", &json!({}));
    fixture.pod_with("web", "web-0", &json!({}), change);
    fixture
}

/// A pod that was OOM killed after a resize had taken half of its memory.
fn killed_after_resize(pod: &mut Value) {
    let from = json!({"at": "2026-01-01T11:30:00Z", "containers": {"app": {"requests": {"memory": "200Mi"}}}});
    pod["metadata"]["annotations"] = json!({"plimsoll.dev/resized-from": from.to_string()});
    pod["status"]["containerStatuses"] = json!([{
        "name": "app", "ready": true, "restartCount": 1, "image": "", "imageID": "",
        "state": {"running": {"startedAt": "2026-01-01T11:40:01Z"}},
        "lastState": {"terminated": {
            "reason": "OOMKilled", "exitCode": 137,
            "startedAt": "2026-01-01T11:30:00Z", "finishedAt": "2026-01-01T11:40:00Z",
        }},
    }]);
}

fn after_boost(pod: &mut Value) {
    boosted(pod, "100m", "2026-01-01T11:59:00Z");
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3");
}

fn changes(action: &Action) -> Vec<String> {
    action.changes.iter().map(ToString::to_string).collect()
}

/// A pause of other acts.
type Pause = fn(&mut Fixture);

/// Expects one act for this reason, however the others are paused, and none while everything is.
fn check(change: fn(&mut Value), reason: ActionReason, expected: &str) {
    let pauses: [(&str, Pause); 3] = [
        ("a closed window", |fixture| {
            fixture.annotate("web", MAINTENANCE_WINDOW, CLOSED);
        }),
        ("a frozen recommendation", |fixture| {
            fixture.edit_vpa("web", |object| {
                let condition = json!({"type": "SourceStale", "status": "True"});
                object["status"]["conditions"] = json!([condition]);
            });
        }),
        ("no webhook", |fixture| {
            fixture.pause = Some(PauseReason::WebhookLeaseExpired);
        }),
    ];
    for (name, pause) in pauses {
        let mut fixture = fixture(change);
        pause(&mut fixture);
        let plan = fixture.pass();
        let action = only_action(&plan);
        assert_eq!(
            (action.reason, changes(action).join(", ").as_str()),
            (reason, expected),
            "{name}"
        );
        assert!(action.reason.is_relief());
        for stop in [
            PauseReason::Stopped,
            PauseReason::AnotherUpdater,
            PauseReason::ViewStale,
        ] {
            fixture.pause = Some(stop);
            assert_eq!(fixture.first_pass().actions, [], "{name}, {stop:?}");
        }
    }
}

#[test]
fn memory_comes_back_after_an_oom_kill() {
    check(
        killed_after_resize,
        ActionReason::Revert,
        "app memory request 100Mi -> 200Mi",
    );
}

#[test]
fn a_startup_boost_ends() {
    check(
        after_boost,
        ActionReason::BoostExpired,
        "app cpu request 3 -> 1",
    );
}

#[test]
fn what_waits_for_the_webhook_is_done_once_it_is_back() {
    let mut fixture = Fixture::new();
    fixture.workload("web", 2, &json!({"updateMode": "Recreate"}));
    for name in ["web-0", "web-1"] {
        fixture.pod("web", name, &json!({}));
    }
    fixture.pause = Some(PauseReason::WebhookLeaseExpired);
    assert_eq!(fixture.pass().actions, []);
    fixture.pause = None;
    assert_eq!(evicted(&fixture.pass()).len(), 1);
}

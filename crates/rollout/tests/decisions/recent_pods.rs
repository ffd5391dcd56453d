//! Numbers of recently created pods, by whether the webhook reviewed them.

use std::time::Duration;

use serde_json::json;

use rollout::{Plan, SkipReason};

use super::fixture::{ACCEPTED, Fixture, reasons};

#[track_caller]
fn check(fixture: &mut Fixture, expected: (usize, usize), changes_in: Option<u64>) {
    let plan = fixture.pass();
    let recent = plan.pod_counts[0].recent;
    assert_eq!((recent.reviewed, recent.unreviewed), expected);
    assert_eq!(plan.wake_in, changes_in.map(Duration::from_secs));
}

#[test]
fn pods_count_for_ten_minutes_unless_they_are_older_than_the_vpa_object_or_opted_out() {
    let mut fixture = Fixture::new();
    fixture.workload("web", 5, &json!({"updateMode": "InPlace"}));
    fixture.made_at("web", "2026-01-01T11:50:30Z");
    for (name, created, label, is_reviewed) in [
        ("reviewed", "11:51:00", "false", true),
        ("unreviewed", "11:58:00", "false", false),
        ("too-old", "11:49:59", "false", false),
        (
            "before-the-webhook-knows-the-object",
            "11:50:40",
            "false",
            false,
        ),
        ("opted-out", "11:58:00", "true", false),
    ] {
        fixture.pod_with("web", name, &json!({}), |pod| {
            let metadata = &mut pod["metadata"];
            metadata["creationTimestamp"] = json!(format!("2026-01-01T{created}Z"));
            metadata["labels"]["plimsoll.dev/disable-webhook"] = json!(label);
            if is_reviewed {
                Fixture::reviewed(pod);
            }
        });
    }
    check(&mut fixture, (1, 1), Some(60));
    for (seconds, expected, changes_in) in [(60, (0, 1), Some(420)), (420, (0, 0), None)] {
        let passed = Duration::from_secs(seconds);
        fixture.now.monotonic += passed;
        fixture.now.wall += passed;
        check(&mut fixture, expected, changes_in);
    }
}

/// A Deployment of four pods from before its VPA object, in a cluster whose API server does not call
/// the webhook.
fn uncalled(name: &str, fixture: &mut Fixture) {
    fixture.deployment(name, 4, &json!({}));
    fixture.made_at(name, "2026-01-01T11:00:00Z");
}

/// Carries out a plan. Replacements come back as their templates say, and are ready at once.
fn replace(fixture: &mut Fixture, plan: &Plan) {
    fixture.report(plan, &ACCEPTED);
    let created = json!(fixture.now.wall.to_string());
    for action in &plan.actions {
        fixture.delete(&action.pod.name);
        let name = format!("{}x", action.pod.name);
        fixture.pod_with(&action.vpa.name, &name, &json!({}), |pod| {
            pod["metadata"]["creationTimestamp"] = created.clone();
        });
    }
}

#[test]
fn replacements_that_the_webhook_does_not_see_are_evicted_less_and_less() {
    let mut fixture = Fixture::new();
    for app in ["web", "api"] {
        uncalled(app, &mut fixture);
    }
    let mut tries = Vec::new();
    for minute in 0..=184 {
        let plan = fixture.pass();
        replace(&mut fixture, &plan);
        if !plan.actions.is_empty() {
            tries.push(minute);
        }
        fixture.check_skipped(SkipReason::WebhookNotCalled);
        let passed = Duration::from_mins(1);
        fixture.now.monotonic += passed;
        fixture.now.wall += passed;
    }
    assert_eq!(tries, [0, 1, 2, 4, 8, 16, 32, 64, 124, 184]);
}

#[test]
fn a_new_leader_waits_a_minute_for_a_replacement_that_the_webhook_did_not_see() {
    let mut fixture = Fixture::new();
    uncalled("web", &mut fixture);
    let plan = fixture.pass();
    replace(&mut fixture, &plan);
    let passed = Duration::from_secs(59);
    fixture.now.monotonic += passed;
    fixture.now.wall += passed;
    let plan = fixture.first_pass();
    assert_eq!(reasons(&plan), [SkipReason::WebhookNotCalled]);
    assert_eq!(plan.wake_in, Some(Duration::from_secs(1)));
}

#[test]
fn a_later_pod_that_the_webhook_sees_ends_the_pause() {
    let mut fixture = Fixture::new();
    uncalled("web", &mut fixture);
    let plan = fixture.pass();
    replace(&mut fixture, &plan);
    fixture.check_skipped(SkipReason::WebhookNotCalled);
    fixture.pod_with("web", "web-4", &json!({"cpu": "1"}), |pod| {
        pod["metadata"]["creationTimestamp"] = json!("2026-01-01T12:00:01Z");
        Fixture::reviewed(pod);
    });
    fixture.now.wall += Duration::from_secs(1);
    assert!(!fixture.pass().actions.is_empty());
}

#[test]
fn pods_from_before_the_object_left_mode_off_do_not_tell() {
    let mut fixture = Fixture::new();
    uncalled("web", &mut fixture);
    let plan = fixture.pass();
    replace(&mut fixture, &plan);
    fixture.check_skipped(SkipReason::WebhookNotCalled);
    fixture.edit_vpa("web", |object| {
        let condition = json!({"type": "Applied", "status": "False", "lastTransitionTime": "2026-01-01T12:00:30Z"});
        object["status"]["conditions"] = json!([condition]);
    });
    assert!(!fixture.first_pass().actions.is_empty());
}

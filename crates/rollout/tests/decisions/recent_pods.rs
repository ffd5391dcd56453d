//! Numbers of recently created pods, by whether the webhook reviewed them.

use std::time::Duration;

use serde_json::json;

use super::fixture::Fixture;

/// Checks the numbers of reviewed and unreviewed pods, and the time until they change.
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
                metadata["annotations"]["vpaObservedContainers"] = json!("app");
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

//! The settling time after changes of VPA objects and namespaces.

use std::sync::Arc;
use std::time::Duration;

use model::ResourceList;
use rollout::{ActionReason, PauseReason, SkipReason};
use serde_json::json;
use view::{LimitRange, ObjectKey, Quota};

use super::fixture::{Fixture, boosted, evicted, only_action, reasons};
use super::oom::killed;

const TIME: Duration = Duration::from_secs(10);

/// A workload of two pods that want another size, seen for the first time.
fn fixture() -> Fixture {
    let mut fixture = super::fixture(2);
    fixture.check_evicted(&["web-0"], "at first");
    fixture
}

/// Checks for how long the pods wait, if they do, and that one is evicted then.
#[track_caller]
fn check_waits(fixture: &mut Fixture, expected: Option<Duration>, when: &str) {
    let plan = fixture.pass();
    let waits = plan
        .wake_in
        .filter(|_| reasons(&plan) == [SkipReason::Settling]);
    assert_eq!(waits, expected, "{when}");
    assert_eq!(plan.actions.is_empty(), waits.is_some(), "{plan:?}");
    fixture.now.monotonic += waits.unwrap_or_default();
    assert_eq!(evicted(&fixture.pass()).len(), 1);
}

#[test]
fn pods_of_a_new_vpa_object_wait() {
    let mut fixture = Fixture::new();
    fixture.pass();
    fixture.deployment("web", 2, &json!({}));
    check_waits(&mut fixture, Some(TIME), "a new object");
}

#[test]
fn after_a_restart_only_pods_of_vpa_objects_that_are_new_wait() {
    for (created, expected) in [
        ("2026-01-01T11:59:58Z", Some(Duration::from_secs(8))),
        ("2026-01-01T11:59:50Z", None),
        // By a clock that is behind.
        ("2026-01-01T12:30:00Z", Some(TIME)),
    ] {
        let mut fixture = Fixture::new();
        fixture.deployment("web", 2, &json!({}));
        fixture.made_at("web", created);
        check_waits(&mut fixture, expected, created);
    }
}

#[test]
fn a_change_of_the_specification_counts_and_one_of_the_status_does_not() {
    let mut fixture = fixture();
    fixture.bound("web", "800m");
    check_waits(&mut fixture, None, "the status");
    fixture.vpa("web", &json!({"updateMode": "Recreate"}));
    check_waits(&mut fixture, Some(TIME), "the specification");
}

#[test]
fn a_change_of_what_a_namespace_demands_counts_there() {
    let mut fixture = fixture();
    let key = || ObjectKey::new("shop", "all");
    fixture.view.limit_ranges.apply(Arc::new(LimitRange {
        key: key(),
        items: Vec::new(),
    }));
    check_waits(&mut fixture, Some(TIME), "a limit range");
    fixture.view.limit_ranges.delete(&key());
    check_waits(&mut fixture, Some(TIME), "it is gone");
    let quota = |name: &str| {
        Arc::new(Quota {
            key: ObjectKey::new(name, "all"),
            hard: ResourceList::new(),
            scopes: vec![],
        })
    };
    fixture.view.quotas.apply(quota("shop"));
    check_waits(&mut fixture, Some(TIME), "a quota");
    fixture.view.quotas.apply(quota("bank"));
    check_waits(&mut fixture, None, "elsewhere");
    fixture.budget("web", 4);
    check_waits(&mut fixture, Some(TIME), "a budget");
    fixture.budget("web", 3);
    check_waits(&mut fixture, None, "only its status changed");
}

#[test]
fn changes_that_go_on_hold_pods_for_a_minute() {
    let mut fixture = fixture();
    let mut held = Vec::new();
    for second in 0..120 {
        fixture.vpa("web", &json!({"minReplicas": 1 + second % 2}));
        held.extend(fixture.pass().actions.is_empty().then_some(second));
        fixture.now.monotonic += Duration::from_secs(1);
    }
    assert_eq!(held, (0..60).collect::<Vec<_>>());
}

#[test]
fn the_time_passes_while_everything_is_halted() {
    let mut fixture = fixture();
    fixture.vpa("web", &json!({"updateMode": "Recreate"}));
    fixture.pause = Some(PauseReason::WebhookLeaseExpired);
    fixture.pass();
    fixture.now.monotonic += TIME;
    fixture.pause = None;
    check_waits(&mut fixture, None, "the halt was longer");
}

#[test]
fn no_time_is_waited_for_where_the_flag_is_zero() {
    let mut fixture = fixture();
    fixture.settings.settling_time = Duration::ZERO;
    fixture.vpa("web", &json!({"updateMode": "Recreate"}));
    check_waits(&mut fixture, None, "no settling time");
}

#[test]
fn quick_oom_kills_and_startup_boosts_that_are_over_do_not_wait() {
    let mut fixture = fixture();
    fixture.settings.startup_boost = true;
    fixture.workload("web", 1, &json!({}));
    fixture.delete("web-1");
    fixture.pass();
    // Pods that went while the group shrank count as lost until then.
    fixture.now.monotonic += Duration::from_mins(1);
    fixture.vpa("web", &json!({"minReplicas": 1}));
    fixture.pod_with("web", "web-0", &json!({}), killed);
    fixture.pass();
    fixture.now.monotonic += Duration::from_secs(1);
    let plan = fixture.pass();
    assert_eq!(evicted(&plan), ["web-0"]);
    assert_eq!(plan.actions[0].reason, ActionReason::QuickOom);

    fixture.boost("web", 60);
    fixture.pod_with("web", "web-0", &json!({"cpu": "3"}), |pod| {
        boosted(pod, "100m", "2026-01-01T11:00:00Z");
    });
    assert_eq!(
        only_action(&fixture.pass()).reason,
        ActionReason::BoostExpired
    );
}

//! VPA objects and namespaces that were just changed, and what may follow.

use std::sync::Arc;
use std::time::Duration;

use model::ResourceList;
use rollout::{ActionReason, PauseReason, RolloutState, SkipReason};
use serde_json::json;
use view::{LimitRange, ObjectKey, Quota};

use super::evicted;
use super::fixture::Fixture;
use super::oom::killed;

const TIME: Duration = Duration::from_secs(10);

/// A workload of two pods that want another size, seen for the first time.
fn fixture() -> (Fixture, RolloutState) {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 2, &json!({}));
    let mut state = RolloutState::default();
    assert_eq!(evicted(&fixture.decide(&mut state)), ["web-0"]);
    (fixture, state)
}

/// For how long the pods wait, if they do, and that one is evicted then.
fn waits(fixture: &mut Fixture, state: &mut RolloutState) -> Option<Duration> {
    let plan = fixture.decide(state);
    let waits = plan
        .wake_in
        .filter(|_| Fixture::reasons(&plan) == [SkipReason::Settling]);
    assert_eq!(plan.actions.is_empty(), waits.is_some(), "{plan:?}");
    fixture.now.monotonic += waits.unwrap_or_default();
    assert_eq!(evicted(&fixture.decide(state)).len(), 1);
    waits
}

#[test]
fn pods_of_a_new_vpa_object_wait() {
    let mut fixture = Fixture::new();
    let mut state = RolloutState::default();
    fixture.decide(&mut state);
    fixture.deployment("web", 2, &json!({}));
    assert_eq!(waits(&mut fixture, &mut state), Some(TIME));
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
        assert_eq!(
            waits(&mut fixture, &mut RolloutState::default()),
            expected,
            "{created}"
        );
    }
}

#[test]
fn a_change_of_the_specification_counts_and_one_of_the_status_does_not() {
    let (mut fixture, mut state) = fixture();
    fixture.bound("web", "800m");
    assert_eq!(waits(&mut fixture, &mut state), None);
    fixture.vpa("web", &json!({"updateMode": "Recreate"}));
    assert_eq!(waits(&mut fixture, &mut state), Some(TIME));
}

#[test]
fn a_change_of_what_a_namespace_demands_counts_there() {
    let (mut fixture, mut state) = fixture();
    let key = || ObjectKey::new("shop", "all");
    fixture.view.limit_ranges.apply(Arc::new(LimitRange {
        key: key(),
        items: Vec::new(),
    }));
    assert_eq!(waits(&mut fixture, &mut state), Some(TIME));
    fixture.view.limit_ranges.delete(&key());
    assert_eq!(waits(&mut fixture, &mut state), Some(TIME), "it is gone");
    let quota = |name: &str| {
        Arc::new(Quota {
            key: ObjectKey::new(name, "all"),
            hard: ResourceList::new(),
            scopes: vec![],
        })
    };
    fixture.view.quotas.apply(quota("shop"));
    assert_eq!(waits(&mut fixture, &mut state), Some(TIME));
    fixture.view.quotas.apply(quota("bank"));
    assert_eq!(waits(&mut fixture, &mut state), None, "elsewhere");
    fixture.budget("web", 4);
    assert_eq!(waits(&mut fixture, &mut state), Some(TIME));
    fixture.budget("web", 3);
    assert_eq!(
        waits(&mut fixture, &mut state),
        None,
        "only its status changed"
    );
}

#[test]
fn changes_that_go_on_hold_pods_for_a_minute() {
    let (mut fixture, mut state) = fixture();
    let mut held = Vec::new();
    for second in 0..120 {
        fixture.vpa("web", &json!({"minReplicas": 1 + second % 2}));
        held.extend(
            fixture
                .decide(&mut state)
                .actions
                .is_empty()
                .then_some(second),
        );
        fixture.now.monotonic += Duration::from_secs(1);
    }
    assert_eq!(held, (0..60).collect::<Vec<_>>());
}

#[test]
fn the_time_passes_while_everything_is_halted() {
    let (mut fixture, mut state) = fixture();
    fixture.vpa("web", &json!({"updateMode": "Recreate"}));
    fixture.pause = Some(PauseReason::WebhookLeaseExpired);
    fixture.decide(&mut state);
    fixture.now.monotonic += TIME;
    fixture.pause = None;
    assert_eq!(waits(&mut fixture, &mut state), None);
}

#[test]
fn no_time_is_waited_for_where_the_flag_is_zero() {
    let (mut fixture, mut state) = fixture();
    fixture.settings.settling_time = Duration::ZERO;
    fixture.vpa("web", &json!({"updateMode": "Recreate"}));
    assert_eq!(waits(&mut fixture, &mut state), None);
}

#[test]
fn quick_oom_kills_and_startup_boosts_that_are_over_do_not_wait() {
    let (mut fixture, mut state) = fixture();
    fixture.settings.startup_boost = true;
    fixture.workload("web", 1, &json!({}));
    fixture.delete("web-1");
    fixture.decide(&mut state);
    // Pods that went while the group shrank count as lost until then.
    fixture.now.monotonic += Duration::from_mins(1);
    fixture.vpa("web", &json!({"minReplicas": 1}));
    fixture.pod_with("web", "web-0", &json!({}), killed);
    fixture.decide(&mut state);
    fixture.now.monotonic += Duration::from_secs(1);
    let plan = fixture.decide(&mut state);
    assert_eq!(
        (evicted(&plan), plan.actions[0].reason),
        (vec!["web-0"], ActionReason::QuickOom)
    );

    fixture.boost("web", 60);
    fixture.pod_with("web", "web-0", &json!({"cpu": "3"}), |pod| {
        pod["metadata"]["annotations"] =
            json!({"vpaCpuStartupBoost/app": "{\"requests\":{\"cpu\":\"100m\"}}"});
    });
    let plan = fixture.decide(&mut state);
    assert_eq!(
        plan.actions
            .iter()
            .map(|action| action.reason)
            .collect::<Vec<_>>(),
        [ActionReason::BoostExpired]
    );
}

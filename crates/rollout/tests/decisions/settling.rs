//! VPA objects and namespaces that were just changed, and what may follow.

use std::sync::Arc;
use std::time::Duration;

use model::ResourceList;
use rollout::{ActionReason, PauseReason, RolloutState, SkipReason};
use serde_json::json;
use view::{LimitRange, ObjectKey, Quota};

use super::evicted;
use super::oom::killed;
use super::world::World;

const TIME: Duration = Duration::from_secs(10);

/// A workload of two pods that want another size, seen for the first time.
fn world() -> (World, RolloutState) {
    let mut world = World::new();
    world.deployment("web", 2, &json!({}));
    let mut state = RolloutState::default();
    assert_eq!(evicted(&world.decide(&mut state)), ["web-0"]);
    (world, state)
}

/// For how long the pods wait, if they do, and that one is evicted then.
fn waits(world: &mut World, state: &mut RolloutState) -> Option<Duration> {
    let plan = world.decide(state);
    let waits = plan
        .wake_in
        .filter(|_| World::reasons(&plan) == [SkipReason::Settling]);
    assert_eq!(plan.actions.is_empty(), waits.is_some(), "{plan:?}");
    world.now.monotonic += waits.unwrap_or_default();
    assert_eq!(evicted(&world.decide(state)).len(), 1);
    waits
}

#[test]
fn pods_of_a_new_vpa_object_wait() {
    let mut world = World::new();
    let mut state = RolloutState::default();
    world.decide(&mut state);
    world.deployment("web", 2, &json!({}));
    assert_eq!(waits(&mut world, &mut state), Some(TIME));
}

#[test]
fn after_a_restart_only_pods_of_vpa_objects_that_are_new_wait() {
    for (created, expected) in [
        ("2026-01-01T11:59:58Z", Some(Duration::from_secs(8))),
        ("2026-01-01T11:59:50Z", None),
        // By a clock that is behind.
        ("2026-01-01T12:30:00Z", Some(TIME)),
    ] {
        let mut world = World::new();
        world.deployment("web", 2, &json!({}));
        world.made_at("web", created);
        assert_eq!(
            waits(&mut world, &mut RolloutState::default()),
            expected,
            "{created}"
        );
    }
}

#[test]
fn a_change_of_the_specification_counts_and_one_of_the_status_does_not() {
    let (mut world, mut state) = world();
    world.bound("web", "800m");
    assert_eq!(waits(&mut world, &mut state), None);
    world.vpa("web", &json!({"updateMode": "Recreate"}));
    assert_eq!(waits(&mut world, &mut state), Some(TIME));
}

#[test]
fn a_change_of_what_a_namespace_demands_counts_there() {
    let (mut world, mut state) = world();
    let key = || ObjectKey::new("shop", "all");
    world.view.limit_ranges.apply(Arc::new(LimitRange {
        key: key(),
        items: Vec::new(),
    }));
    assert_eq!(waits(&mut world, &mut state), Some(TIME));
    world.view.limit_ranges.delete(&key());
    assert_eq!(waits(&mut world, &mut state), Some(TIME), "it is gone");
    let quota = |name: &str| {
        Arc::new(Quota {
            key: ObjectKey::new(name, "all"),
            hard: ResourceList::new(),
            scopes: vec![],
        })
    };
    world.view.quotas.apply(quota("shop"));
    assert_eq!(waits(&mut world, &mut state), Some(TIME));
    world.view.quotas.apply(quota("bank"));
    assert_eq!(waits(&mut world, &mut state), None, "elsewhere");
    world.budget("web", 4);
    assert_eq!(waits(&mut world, &mut state), Some(TIME));
    world.budget("web", 3);
    assert_eq!(
        waits(&mut world, &mut state),
        None,
        "only its status changed"
    );
}

#[test]
fn changes_that_go_on_hold_pods_for_a_minute() {
    let (mut world, mut state) = world();
    let mut held = Vec::new();
    for second in 0..120 {
        world.vpa("web", &json!({"minReplicas": 1 + second % 2}));
        held.extend(
            world
                .decide(&mut state)
                .actions
                .is_empty()
                .then_some(second),
        );
        world.now.monotonic += Duration::from_secs(1);
    }
    assert_eq!(held, (0..60).collect::<Vec<_>>());
}

#[test]
fn the_time_passes_while_everything_is_halted() {
    let (mut world, mut state) = world();
    world.vpa("web", &json!({"updateMode": "Recreate"}));
    world.pause = Some(PauseReason::WebhookLeaseExpired);
    world.decide(&mut state);
    world.now.monotonic += TIME;
    world.pause = None;
    assert_eq!(waits(&mut world, &mut state), None);
}

#[test]
fn no_time_is_waited_for_where_the_flag_is_zero() {
    let (mut world, mut state) = world();
    world.settings.settling_time = Duration::ZERO;
    world.vpa("web", &json!({"updateMode": "Recreate"}));
    assert_eq!(waits(&mut world, &mut state), None);
}

#[test]
fn quick_oom_kills_and_startup_boosts_that_are_over_do_not_wait() {
    let (mut world, mut state) = world();
    world.settings.startup_boost = true;
    world.workload("web", 1, &json!({}));
    world.delete("web-1");
    world.decide(&mut state);
    // Pods that went while the group shrank count as lost until then.
    world.now.monotonic += Duration::from_mins(1);
    world.vpa("web", &json!({"minReplicas": 1}));
    world.pod_with("web", "web-0", &json!({}), killed);
    world.decide(&mut state);
    world.now.monotonic += Duration::from_secs(1);
    let plan = world.decide(&mut state);
    assert_eq!(
        (evicted(&plan), plan.actions[0].reason),
        (vec!["web-0"], ActionReason::QuickOom)
    );

    world.boost("web", 60);
    world.pod_with("web", "web-0", &json!({"cpu": "3"}), |pod| {
        pod["metadata"]["annotations"] =
            json!({"vpaCpuStartupBoost/app": "{\"requests\":{\"cpu\":\"100m\"}}"});
    });
    let plan = world.decide(&mut state);
    assert_eq!(
        plan.actions
            .iter()
            .map(|action| action.reason)
            .collect::<Vec<_>>(),
        [ActionReason::BoostExpired]
    );
}

//! Whole decisions over a small cluster.

mod changes;
mod chaos;
mod in_place;
mod losses;
mod oom;
mod settling;
mod sidecars;
mod world;

use std::time::Duration;

use rollout::{
    ActionKind, ActionOutcome, ActionReason, PauseReason, Plan, RolloutState, SkipReason,
};
use serde_json::json;

use world::World;

/// Names of the pods that are to be evicted.
fn evicted(plan: &Plan) -> Vec<&str> {
    let evictions = plan
        .actions
        .iter()
        .filter(|action| action.kind == ActionKind::Evict);
    evictions.map(|action| action.pod.name.as_str()).collect()
}

/// Carries out the first `count` acts in the name of the memory alone: the cluster does not show it
/// yet.
fn carry_out(world: &World, state: &mut RolloutState, plan: &Plan, outcome: &ActionOutcome) {
    for action in &plan.actions {
        state.begin(action, world.now);
        state.end(action, outcome, world.now);
    }
}

const ACCEPTED: ActionOutcome = ActionOutcome::Accepted { generation: None };

#[test]
fn half_of_a_deployment_is_evicted_and_the_rest_once_that_is_back() {
    let mut world = World::new();
    world.deployment("web", 4, &json!({}));
    let mut state = RolloutState::default();
    let plan = world.decide(&mut state);
    assert_eq!(evicted(&plan), ["web-0", "web-1"]);
    assert!(
        plan.actions
            .iter()
            .all(|action| action.reason == ActionReason::OutsideBounds)
    );
    carry_out(&world, &mut state, &plan, &ACCEPTED);
    assert_eq!(world.decide(&mut state).actions, [], "two are on their way");

    world.delete("web-0");
    world.delete("web-1");
    assert_eq!(world.decide(&mut state).actions, [], "two are gone");
    world.pod("web", "web-4", &json!({"ready": false, "cpu": "1"}));
    world.pod("web", "web-5", &json!({"ready": true, "cpu": "1"}));
    assert_eq!(
        evicted(&world.decide(&mut state)),
        ["web-2"],
        "one of two replacements is ready"
    );
}

#[test]
fn a_refused_eviction_is_tried_again_later() {
    let mut world = World::new();
    world.deployment("web", 2, &json!({}));
    let mut state = RolloutState::default();
    let plan = world.decide(&mut state);
    carry_out(
        &world,
        &mut state,
        &plan,
        &ActionOutcome::TooManyRequests { retry_after: None },
    );
    let plan = world.decide(&mut state);
    assert_eq!(evicted(&plan), ["web-1"], "the other one may go meanwhile");
    assert_eq!(plan.wake_in, Some(Duration::from_secs(1)));
    world.now.monotonic += Duration::from_secs(1);
    assert_eq!(evicted(&world.decide(&mut state)), ["web-0"]);
}

#[test]
fn an_eviction_of_which_nothing_was_heard_holds_its_place() {
    let mut world = World::new();
    world.deployment("web", 2, &json!({}));
    let mut state = RolloutState::default();
    let plan = world.decide(&mut state);
    carry_out(&world, &mut state, &plan, &ActionOutcome::Unknown);
    assert_eq!(world.decide(&mut state).actions, []);
    world.now.monotonic += Duration::from_secs(1);
    assert_eq!(
        evicted(&world.decide(&mut state)),
        ["web-0"],
        "only the same one"
    );
}

#[test]
fn no_budget_is_asked_in_vain() {
    let mut world = World::new();
    world.deployment("web", 4, &json!({}));
    world.budget("web", 1);
    let mut state = RolloutState::default();
    let plan = world.decide(&mut state);
    assert_eq!(evicted(&plan), ["web-0"]);
    assert_eq!(
        plan.skips
            .iter()
            .map(|skip| skip.reason)
            .collect::<Vec<_>>(),
        [
            SkipReason::DisruptionBudget,
            SkipReason::DisruptionBudget,
            SkipReason::DisruptionBudget
        ]
    );
    carry_out(&world, &mut state, &plan, &ACCEPTED);
    assert_eq!(
        world.decide(&mut state).actions,
        [],
        "the budget's status does not show it yet"
    );
    world.budget("web-too", 4);
    assert_eq!(
        World::reasons(&world.decide(&mut RolloutState::default())),
        [SkipReason::MultipleBudgets]
    );
}

#[test]
fn a_workload_that_is_too_small_is_left_alone() {
    let mut world = World::new();
    world.deployment("web", 1, &json!({}));
    assert_eq!(world.decide(&mut RolloutState::default()).actions, []);
    world.vpa("web", &json!({"minReplicas": 1}));
    assert_eq!(
        evicted(&world.decide(&mut RolloutState::default())),
        ["web-0"]
    );
}

#[test]
fn nothing_is_done_while_everything_is_halted() {
    let mut world = World::new();
    world.deployment("web", 2, &json!({}));
    for pause in [
        PauseReason::Stopped,
        PauseReason::WebhookLeaseExpired,
        PauseReason::ViewStale,
    ] {
        world.pause = Some(pause);
        assert_eq!(world.decide(&mut RolloutState::default()).actions, []);
    }
}

#[test]
fn pods_that_come_back_as_they_were_are_left_alone_for_longer_and_longer() {
    let mut world = World::new();
    world.deployment("web", 1, &json!({"minReplicas": 1}));
    let mut state = RolloutState::default();
    // Nobody sizes new pods, and each is ready at once.
    let mut replace = |world: &mut World, waits_seconds: u64| {
        let plan = world.decide(&mut state);
        let [gone] = evicted(&plan)[..] else {
            panic!("one eviction: {plan:?}")
        };
        let next = format!("{gone}x");
        carry_out(world, &mut state, &plan, &ACCEPTED);
        world.delete(gone);
        world.now.monotonic += Duration::from_millis(1);
        world.pod("web", &next, &json!({}));
        let plan = world.decide(&mut state);
        assert_eq!(
            (evicted(&plan).len(), World::reasons(&plan)),
            (0, vec![SkipReason::EvictionIneffective])
        );
        let left = plan.wake_in.expect("it is looked at again");
        assert_eq!(
            left + Duration::from_millis(1),
            Duration::from_secs(waits_seconds),
            "{next}"
        );
        world.now.monotonic += left;
    };
    for waits_seconds in [
        1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600,
    ] {
        replace(&mut world, waits_seconds);
    }
    assert_eq!(evicted(&world.decide(&mut state)).len(), 1);
}

/// Evicts the only pod, which comes back as it was.
fn evict_in_vain(world: &mut World, state: &mut RolloutState) {
    let plan = world.decide(state);
    let [gone] = evicted(&plan)[..] else {
        panic!("one eviction: {plan:?}")
    };
    carry_out(world, state, &plan, &ACCEPTED);
    world.delete(gone);
    world.now.monotonic += Duration::from_millis(1);
    world.pod("web", &format!("{gone}x"), &json!({}));
}

#[test]
fn a_bound_that_moves_with_time_is_no_other_recommendation() {
    let mut world = World::new();
    world.deployment("web", 1, &json!({"minReplicas": 1}));
    let mut state = RolloutState::default();
    evict_in_vain(&mut world, &mut state);
    world.bound("web", "901m");
    assert_eq!(
        World::reasons(&world.decide(&mut state)),
        [SkipReason::EvictionIneffective]
    );
}

#[test]
fn another_recommendation_is_tried_at_once_and_does_not_end_the_pauses() {
    let mut world = World::new();
    world.deployment("web", 1, &json!({"minReplicas": 1}));
    let mut state = RolloutState::default();
    evict_in_vain(&mut world, &mut state);
    for expected in [2, 4] {
        world.now.monotonic += world
            .decide(&mut state)
            .wake_in
            .expect("it is looked at again");
        evict_in_vain(&mut world, &mut state);
        let left = world
            .decide(&mut state)
            .wake_in
            .map(|left| left + Duration::from_millis(1));
        assert_eq!(left, Some(Duration::from_secs(expected)));
    }
    world.recommend("web", "2");
    evict_in_vain(&mut world, &mut state);
    let left = world
        .decide(&mut state)
        .wake_in
        .map(|left| left + Duration::from_millis(1));
    assert_eq!(
        left,
        Some(Duration::from_secs(4)),
        "as long as the pause that was cut short"
    );
    world.now.monotonic += Duration::from_hours(2);
    evict_in_vain(&mut world, &mut state);
    let left = world
        .decide(&mut state)
        .wake_in
        .map(|left| left + Duration::from_millis(1));
    assert_eq!(left, Some(Duration::from_secs(1)), "a new series");
}

#[test]
fn pods_that_are_made_while_something_else_is_recommended_are_evicted_at_once() {
    let mut world = World::new();
    world.deployment("web", 1, &json!({"minReplicas": 1}));
    let mut state = RolloutState::default();
    let plan = world.decide(&mut state);
    carry_out(&world, &mut state, &plan, &ACCEPTED);
    world.delete("web-0");
    world.now.monotonic += Duration::from_millis(1);
    world.pod("web", "web-1", &json!({"cpu": "1"}));
    assert_eq!(world.decide(&mut state).actions, []);
    world.recommend("web", "2");
    assert_eq!(evicted(&world.decide(&mut state)), ["web-1"]);
}

#[test]
fn the_conditions_of_owners_are_told_as_the_reason() {
    let mut world = World::new();
    let less = json!([{"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}]);
    world.deployment("web", 2, &json!({"evictionRequirements": less}));
    let plan = world.decide(&mut RolloutState::default());
    assert_eq!(
        (evicted(&plan).len(), World::reasons(&plan)),
        (0, vec![SkipReason::EvictionRequirements])
    );
}

#[test]
fn a_closing_window_is_waited_for() {
    let mut world = World::new();
    world.deployment("web", 1, &json!({}));
    world.annotate("web", rollout::MAINTENANCE_WINDOW, "30 11 * * *; for=1h");
    assert_eq!(
        world.decide(&mut RolloutState::default()).wake_in,
        Some(Duration::from_mins(30))
    );
}

//! A pass decides about what has changed, and so the same as one that decides about everything.

mod arbitrary;
mod pair;
mod timers;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rollout::{ActionOutcome, PauseReason, RolloutState};
use serde_json::json;
use view::{DisruptionBudget, ObjectKey};

use super::world::World;

const GROUPS: usize = 1_000;

/// The number of VPA objects about which the next pass decides.
#[track_caller]
fn check(world: &World, state: &mut RolloutState, expected: usize) {
    assert_eq!(world.decide(state).decided, expected);
}

#[test]
fn only_what_changed_among_a_thousand_groups_is_decided_about() {
    let mut world = World::new();
    for index in 0..GROUPS {
        world.deployment(&format!("web{index}"), 2, &json!({}));
    }
    let mut state = RolloutState::default();
    let plan = world.decide(&mut state);
    assert_eq!((plan.decided, plan.actions.len()), (GROUPS, GROUPS));
    check(&world, &mut state, 0);
    world.pod("web7", "web7-1", &json!({"ready": false}));
    check(&world, &mut state, 1);
    world.delete("web7-1");
    check(&world, &mut state, 1);
    world.recommend("web8", "2");
    check(&world, &mut state, 1);
    world.scale("web9", 3);
    check(&world, &mut state, 1);
    state.begin(&plan.actions[10], world.now);
    check(&world, &mut state, 1);
    state.end(
        &plan.actions[10],
        &ActionOutcome::TooManyRequests { retry_after: None },
        world.now,
    );
    check(&world, &mut state, 1);
    check(&world, &mut state, 0);
    let pause = Duration::from_secs(1);
    (world.now.monotonic, world.now.wall) = (world.now.monotonic + pause, world.now.wall + pause);
    check(&world, &mut state, 1);
    let plan = world.decide(&mut state);
    assert_eq!(
        (plan.decided, plan.pod_counts.len(), plan.actions.len()),
        (0, GROUPS, GROUPS - 2),
        "the plan is whole"
    );
}

#[test]
fn what_shares_a_budget_is_decided_about_together() {
    let mut world = World::new();
    for name in ["web", "api", "job"] {
        world.deployment(name, 2, &json!({}));
    }
    world.view.disruption_budgets.apply(Arc::new(budget(
        "all",
        "app in (web,api)",
        1,
        &[],
        world.now.wall,
    )));
    let mut state = RolloutState::default();
    check(&world, &mut state, 3);
    world.pod("web", "web-0", &json!({"ready": false}));
    check(&world, &mut state, 2);
    world.pod("job", "job-0", &json!({"ready": false}));
    check(&world, &mut state, 1);
    world.view.disruption_budgets.apply(Arc::new(budget(
        "all",
        "app in (web,api)",
        0,
        &[],
        world.now.wall,
    )));
    check(&world, &mut state, 2);
}

#[test]
fn everything_is_decided_about_after_a_halt_and_when_that_is_asked_for() {
    let mut world = World::new();
    world.deployment("web", 2, &json!({}));
    let mut state = RolloutState::default();
    check(&world, &mut state, 1);
    check(&world, &mut state, 0);
    world.pause = Some(PauseReason::WebhookLeaseExpired);
    check(&world, &mut state, 0);
    world.pause = None;
    check(&world, &mut state, 1);
    state.forget_decisions();
    check(&world, &mut state, 1);
    world.now.wall += Duration::from_hours(1);
    check(&world, &mut state, 1);
}

fn budget(
    name: &str,
    selector: &str,
    allowed: i32,
    disrupted: &[String],
    at: jiff::Timestamp,
) -> DisruptionBudget {
    DisruptionBudget {
        key: ObjectKey::new("shop", name),
        selector: selector.parse(),
        generation: 1,
        observed_generation: 1,
        disruptions_allowed: allowed,
        current_healthy: 4,
        desired_healthy: 1,
        disrupted: disrupted
            .iter()
            .map(|name| (name.clone(), at))
            .collect::<BTreeSet<_>>(),
        gives_up_unhealthy: false,
    }
}

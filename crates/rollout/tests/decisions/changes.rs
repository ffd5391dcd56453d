//! Incremental passes decide the same as full ones.

mod comparison;
mod random;
mod timers;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rollout::{ActionOutcome, PauseReason, RolloutState};
use serde_json::json;
use view::{DisruptionBudget, ObjectKey};

use super::fixture::Fixture;

const GROUPS: usize = 1_000;

/// The number of VPA objects about which the next pass decides.
#[track_caller]
fn check(fixture: &Fixture, state: &mut RolloutState, expected: usize) {
    assert_eq!(fixture.decide(state).decided, expected);
}

#[test]
fn only_what_changed_among_a_thousand_groups_is_decided_about() {
    let mut fixture = Fixture::new();
    for index in 0..GROUPS {
        fixture.deployment(&format!("web{index}"), 2, &json!({}));
    }
    let mut state = RolloutState::default();
    let plan = fixture.decide(&mut state);
    assert_eq!((plan.decided, plan.actions.len()), (GROUPS, GROUPS));
    check(&fixture, &mut state, 0);
    fixture.pod("web7", "web7-1", &json!({"ready": false}));
    check(&fixture, &mut state, 1);
    fixture.delete("web7-1");
    check(&fixture, &mut state, 1);
    fixture.recommend("web8", "2");
    check(&fixture, &mut state, 1);
    fixture.scale("web9", 3);
    check(&fixture, &mut state, 1);
    state.begin(&plan.actions[10], fixture.now);
    check(&fixture, &mut state, 1);
    state.end(
        &plan.actions[10],
        &ActionOutcome::TooManyRequests { retry_after: None },
        fixture.now,
    );
    check(&fixture, &mut state, 1);
    check(&fixture, &mut state, 0);
    let pause = Duration::from_secs(1);
    (fixture.now.monotonic, fixture.now.wall) =
        (fixture.now.monotonic + pause, fixture.now.wall + pause);
    check(&fixture, &mut state, 1);
    let plan = fixture.decide(&mut state);
    assert_eq!(
        (plan.decided, plan.pod_counts.len(), plan.actions.len()),
        (0, GROUPS, GROUPS - 2),
        "the plan is complete"
    );
}

#[test]
fn what_shares_a_budget_is_decided_about_together() {
    let mut fixture = Fixture::new();
    for name in ["web", "api", "job"] {
        fixture.deployment(name, 2, &json!({}));
    }
    fixture.view.disruption_budgets.apply(Arc::new(budget(
        "all",
        "app in (web,api)",
        1,
        &[],
        fixture.now.wall,
    )));
    let mut state = RolloutState::default();
    check(&fixture, &mut state, 3);
    fixture.pod("web", "web-0", &json!({"ready": false}));
    check(&fixture, &mut state, 2);
    fixture.pod("job", "job-0", &json!({"ready": false}));
    check(&fixture, &mut state, 1);
    fixture.view.disruption_budgets.apply(Arc::new(budget(
        "all",
        "app in (web,api)",
        0,
        &[],
        fixture.now.wall,
    )));
    check(&fixture, &mut state, 2);
}

#[test]
fn everything_is_decided_about_after_a_halt_and_when_that_is_asked_for() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 2, &json!({}));
    let mut state = RolloutState::default();
    check(&fixture, &mut state, 1);
    check(&fixture, &mut state, 0);
    fixture.pause = Some(PauseReason::WebhookLeaseExpired);
    check(&fixture, &mut state, 0);
    fixture.pause = None;
    check(&fixture, &mut state, 1);
    state.forget_decisions();
    check(&fixture, &mut state, 1);
    fixture.now.wall += Duration::from_hours(1);
    check(&fixture, &mut state, 1);
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
        always_allows_unhealthy: false,
    }
}

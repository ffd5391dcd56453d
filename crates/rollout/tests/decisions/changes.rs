//! Incremental passes decide the same as full ones.

mod comparison;
mod node_groups;
mod random;
mod timers;

use std::time::Duration;

use rollout::PauseReason;
use serde_json::json;

use super::fixture::{Fixture, TOO_MANY_REQUESTS};

const GROUPS: usize = 1_000;

/// The number of VPA objects about which the next pass decides.
#[track_caller]
fn check(fixture: &mut Fixture, expected: usize) {
    assert_eq!(fixture.pass().decided, expected);
}

#[test]
fn only_what_changed_among_a_thousand_groups_is_decided_about() {
    let mut fixture = Fixture::new();
    for index in 0..GROUPS {
        fixture.deployment(&format!("web{index}"), 2, &json!({}));
    }
    let plan = fixture.pass();
    assert_eq!((plan.decided, plan.actions.len()), (GROUPS, GROUPS));
    check(&mut fixture, 0);
    fixture.pod("web7", "web7-1", &json!({"ready": false}));
    check(&mut fixture, 1);
    fixture.delete("web7-1");
    check(&mut fixture, 1);
    fixture.recommend("web8", "2");
    check(&mut fixture, 1);
    fixture.scale("web9", 3);
    check(&mut fixture, 1);
    let action = &plan.actions[10];
    fixture.state.begin(action, fixture.now);
    check(&mut fixture, 1);
    fixture.state.end(action, &TOO_MANY_REQUESTS, fixture.now);
    check(&mut fixture, 1);
    check(&mut fixture, 0);
    fixture.now.monotonic += Duration::from_secs(1);
    fixture.now.wall += Duration::from_secs(1);
    check(&mut fixture, 1);
    let plan = fixture.pass();
    let found = (plan.decided, plan.pod_counts.len(), plan.actions.len());
    assert_eq!(found, (0, GROUPS, GROUPS - 2), "the plan is complete");
}

#[test]
fn what_shares_a_budget_is_decided_about_together() {
    let mut fixture = Fixture::new();
    for name in ["web", "api", "job"] {
        fixture.deployment(name, 2, &json!({}));
    }
    fixture.budget_over("all", "app in (web,api)", [1, 1], &[]);
    check(&mut fixture, 3);
    fixture.pod("web", "web-0", &json!({"ready": false}));
    check(&mut fixture, 2);
    fixture.pod("job", "job-0", &json!({"ready": false}));
    check(&mut fixture, 1);
    fixture.budget_over("all", "app in (web,api)", [0, 1], &[]);
    check(&mut fixture, 2);
}

#[test]
fn everything_is_decided_about_after_a_halt_and_when_that_is_asked_for() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 2, &json!({}));
    check(&mut fixture, 1);
    check(&mut fixture, 0);
    fixture.pause = Some(PauseReason::Stopped);
    check(&mut fixture, 0);
    fixture.pause = None;
    check(&mut fixture, 1);
    fixture.state.forget_decisions();
    check(&mut fixture, 1);
    fixture.now.wall += Duration::from_hours(1);
    check(&mut fixture, 1);
}

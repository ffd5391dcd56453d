//! Decisions that time alone changes are made when they are due.

use std::sync::Arc;
use std::time::Duration;

use rollout::{ActionOutcome, MAINTENANCE_WINDOW, REVERTED_AT};
use serde_json::{Value, json};

use super::super::fixture::{
    self, ACCEPTED, Fixture, TOO_MANY_REQUESTS, TOO_SMALL, not_resized_yet, pending, say,
    set_requests,
};
use super::super::oom::killed;
use super::comparison::Comparison;

const NOON: &str = "2026-01-01T12:00:00Z";

/// Passes in half a second, in a second, and so on, until more than twelve hours are over.
fn pauses() -> impl Iterator<Item = Duration> {
    let times =
        |count: usize, millis: u64| std::iter::repeat_n(Duration::from_millis(millis), count);
    let often = times(10, 500).chain(times(40, 1000));
    often.chain(times(60, 7_000)).chain(times(90, 9 * 60_000))
}

/// A Deployment of three pods, which have the size that is recommended.
fn deployment(policy: &Value) -> Fixture {
    let mut fixture = Fixture::new();
    (fixture.settings.in_place, fixture.settings.startup_boost) = (true, true);
    fixture.workload("web", 3, policy);
    for name in ["web-0", "web-1", "web-2"] {
        fixture.pod("web", name, &json!({"cpu": "1"}));
    }
    fixture
}

/// Checks that nothing but time changes what is decided, once it was decided about `fixture` and
/// `change` came after that.
fn check(fixture: Fixture, change: impl FnOnce(&mut Comparison)) {
    let mut comparison = Comparison::new(fixture);
    comparison.pass();
    change(&mut comparison);
    let first = comparison.pass();
    let mut changes = 0;
    for pause in pauses() {
        comparison.wait(pause);
        changes += u32::from(comparison.pass() != first);
    }
    assert!(changes > 0, "{first:#?}");
}

/// Carries out the first action of the last plan.
fn carry_out(comparison: &mut Comparison, outcome: &ActionOutcome) {
    let action = comparison
        .plan
        .actions
        .first()
        .expect("something is to be done");
    let action = Arc::clone(action);
    comparison.begin(&action);
    comparison.end(&action, outcome);
}

fn in_place() -> Value {
    json!({"updateMode": "InPlaceOrRecreate"})
}

#[test]
fn the_age_of_pods_within_the_bounds() {
    let mut fixture = deployment(&json!({}));
    fixture.pod("web", "web-0", &json!({"cpu": "900m"}));
    check(fixture, |_| ());
}

#[test]
fn the_age_of_oom_kills() {
    let mut fixture = deployment(&json!({}));
    fixture.pod_with("web", "web-0", &json!({"cpu": "990m"}), killed);
    fixture.bound("web", "500m");
    check(fixture, |_| ());
}

#[test]
fn the_protection_of_restored_memory() {
    let mut fixture = deployment(&in_place());
    fixture.pod_with("web", "web-0", &json!({"cpu": "1"}), |pod| {
        pod["metadata"]["annotations"] = json!({REVERTED_AT: NOON});
        set_requests(pod, "1", "300Mi");
    });
    check(fixture, |_| ());
}

fn boosted(ready_at: &str) -> Fixture {
    let mut fixture = deployment(&in_place());
    fixture.boost("web", 60);
    fixture.pod_with("web", "web-0", &json!({"cpu": "3"}), |pod| {
        fixture::boosted(pod, "1", ready_at);
    });
    fixture
}

#[test]
fn a_startup_boost() {
    check(boosted(NOON), |_| ());
}

#[test]
fn the_pause_after_a_rejected_resize() {
    check(boosted("2026-01-01T11:00:00Z"), |comparison| {
        carry_out(comparison, &ActionOutcome::Rejected);
    });
}

#[test]
fn a_deferred_resize() {
    for mode in ["InPlaceOrRecreate", "Recreate"] {
        let mut fixture = deployment(&json!({"updateMode": mode}));
        fixture.pod_with("web", "web-0", &json!({"cpu": "100m"}), |pod| {
            pending(pod, "Deferred", NOON);
        });
        check(fixture, |_| ());
    }
}

fn small_pods() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 3, &json!({}));
    fixture
}

#[test]
fn pauses_after_refusals_and_unknown_outcomes() {
    for outcome in [
        TOO_MANY_REQUESTS,
        ActionOutcome::Unknown,
        ActionOutcome::Rejected,
    ] {
        check(small_pods(), |comparison| carry_out(comparison, &outcome));
    }
}

#[test]
fn pauses_after_ineffective_evictions() {
    check(small_pods(), |comparison| {
        carry_out(comparison, &ACCEPTED);
        comparison.fixture.delete("web-0");
        comparison.wait(Duration::from_millis(1));
        comparison.pass();
        comparison.fixture.pod("web", "web-3", &json!({}));
        for name in ["web-1", "web-2"] {
            comparison.fixture.pod("web", name, &json!({"cpu": "1"}));
        }
    });
}

#[test]
fn settling() {
    check(small_pods(), |comparison| {
        comparison.fixture.vpa("web", &json!({"minReplicas": 1}));
    });
}

#[test]
fn maintenance_windows() {
    let mut fixture = small_pods();
    fixture.annotate("web", MAINTENANCE_WINDOW, "5 12 * * *; for=1h");
    check(fixture, |_| ());
}

#[test]
fn evictions_that_only_the_status_of_a_budget_shows() {
    let mut fixture = small_pods();
    fixture.settings.eviction_tolerance = 1.0;
    fixture.budget_over("web", "app=web", [1, 1], &["web-0".to_owned()]);
    check(fixture, |_| ());
}

#[test]
fn pods_that_went_while_a_group_shrank() {
    for replicas in [1, 2] {
        check(small_pods(), |comparison| {
            comparison.fixture.scale("web", replicas);
            comparison.fixture.delete("web-0");
        });
    }
}

#[test]
fn pods_that_go_after_nothing_has_changed_for_long() {
    let mut comparison = Comparison::new(small_pods());
    for _ in 0..10 {
        comparison.pass();
        comparison.wait(Duration::from_mins(1));
    }
    comparison.fixture.scale("web", 1);
    comparison.fixture.delete("web-0");
    comparison.pass();
    assert_eq!(comparison.plan.actions, [], "one of three is missing");
}

#[test]
fn a_group_that_has_too_many_pods_for_long() {
    let mut comparison = Comparison::new(small_pods());
    comparison.fixture.scale("web", 2);
    for _ in 0..10 {
        comparison.pass();
        comparison.wait(Duration::from_mins(1));
    }
    comparison.fixture.delete("web-0");
    comparison.pass();
    comparison.fixture.scale("web", 3);
    comparison.pass();
}

#[test]
fn a_group_that_was_gone_and_comes_back_is_new() {
    let mut comparison = Comparison::new(small_pods());
    comparison.pass();
    comparison.fixture.scale("web", 2);
    comparison.fixture.delete("web-0");
    comparison.pass();
    for name in ["web-1", "web-2"] {
        comparison.fixture.delete(name);
    }
    comparison.pass();
    for name in ["web-3", "web-4"] {
        comparison.fixture.pod("web", name, &json!({}));
    }
    comparison.pass();
    assert_eq!(comparison.plan.actions.len(), 1);
}

#[test]
fn a_size_that_is_too_large_for_nodes_of_a_shape() {
    let mut fixture = deployment(&json!({"updateMode": "InPlace"}));
    fixture.node("4", "8Gi");
    fixture.pod("web", "web-1", &json!({"cpu": "100m"}));
    fixture.pod_with("web", "web-0", &json!({"cpu": "1"}), |pod| {
        not_resized_yet(pod);
        pending(pod, "Infeasible", NOON);
        say(pod, TOO_SMALL);
    });
    let mut comparison = Comparison::new(fixture);
    let first = comparison.pass();
    assert_ne!(
        comparison.pass(),
        first,
        "the second pass knows what the first one found"
    );
}

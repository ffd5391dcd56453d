//! Decisions about a small cluster, through the public interface.

mod changes;
mod chaos;
mod fixture;
mod in_place;
mod losses;
mod oom;
mod settling;
mod sidecars;

use std::time::Duration;

use rollout::{
    ActionKind, ActionOutcome, ActionReason, PauseReason, Plan, RolloutState, SkipReason,
};
use serde_json::json;

use fixture::Fixture;

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
fn carry_out(fixture: &Fixture, state: &mut RolloutState, plan: &Plan, outcome: &ActionOutcome) {
    for action in &plan.actions {
        state.begin(action, fixture.now);
        state.end(action, outcome, fixture.now);
    }
}

const ACCEPTED: ActionOutcome = ActionOutcome::Accepted { generation: None };

#[test]
fn half_of_a_deployment_is_evicted_and_the_rest_once_that_is_back() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 4, &json!({}));
    let mut state = RolloutState::default();
    let plan = fixture.decide(&mut state);
    assert_eq!(evicted(&plan), ["web-0", "web-1"]);
    assert!(
        plan.actions
            .iter()
            .all(|action| action.reason == ActionReason::OutsideBounds)
    );
    carry_out(&fixture, &mut state, &plan, &ACCEPTED);
    assert_eq!(
        fixture.decide(&mut state).actions,
        [],
        "two are on their way"
    );

    fixture.delete("web-0");
    fixture.delete("web-1");
    assert_eq!(fixture.decide(&mut state).actions, [], "two are gone");
    fixture.pod("web", "web-4", &json!({"ready": false, "cpu": "1"}));
    fixture.pod("web", "web-5", &json!({"ready": true, "cpu": "1"}));
    assert_eq!(
        evicted(&fixture.decide(&mut state)),
        ["web-2"],
        "one of two replacements is ready"
    );
}

#[test]
fn a_refused_eviction_is_tried_again_later() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 2, &json!({}));
    let mut state = RolloutState::default();
    let plan = fixture.decide(&mut state);
    carry_out(
        &fixture,
        &mut state,
        &plan,
        &ActionOutcome::TooManyRequests { retry_after: None },
    );
    let plan = fixture.decide(&mut state);
    assert_eq!(evicted(&plan), ["web-1"], "the other one may go meanwhile");
    assert_eq!(plan.wake_in, Some(Duration::from_secs(1)));
    fixture.now.monotonic += Duration::from_secs(1);
    assert_eq!(evicted(&fixture.decide(&mut state)), ["web-0"]);
}

#[test]
fn an_eviction_of_unknown_outcome_still_counts() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 2, &json!({}));
    let mut state = RolloutState::default();
    let plan = fixture.decide(&mut state);
    carry_out(&fixture, &mut state, &plan, &ActionOutcome::Unknown);
    assert_eq!(fixture.decide(&mut state).actions, []);
    fixture.now.monotonic += Duration::from_secs(1);
    assert_eq!(
        evicted(&fixture.decide(&mut state)),
        ["web-0"],
        "only the same one"
    );
}

#[test]
fn no_eviction_is_sent_that_a_budget_refuses() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 4, &json!({}));
    fixture.budget("web", 1);
    let mut state = RolloutState::default();
    let plan = fixture.decide(&mut state);
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
    carry_out(&fixture, &mut state, &plan, &ACCEPTED);
    assert_eq!(
        fixture.decide(&mut state).actions,
        [],
        "the budget's status does not show it yet"
    );
    fixture.budget("web-too", 4);
    assert_eq!(
        Fixture::reasons(&fixture.decide(&mut RolloutState::default())),
        [SkipReason::MultipleBudgets]
    );
}

#[test]
fn a_workload_that_is_too_small_is_left_alone() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 1, &json!({}));
    assert_eq!(fixture.decide(&mut RolloutState::default()).actions, []);
    fixture.vpa("web", &json!({"minReplicas": 1}));
    assert_eq!(
        evicted(&fixture.decide(&mut RolloutState::default())),
        ["web-0"]
    );
}

#[test]
fn nothing_is_done_during_a_pause() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 2, &json!({}));
    for pause in [
        PauseReason::Stopped,
        PauseReason::WebhookLeaseExpired,
        PauseReason::ViewStale,
    ] {
        fixture.pause = Some(pause);
        assert_eq!(fixture.decide(&mut RolloutState::default()).actions, []);
    }
}

#[test]
fn ineffective_evictions_are_spaced_out() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 1, &json!({"minReplicas": 1}));
    let mut state = RolloutState::default();
    // The webhook sizes no pods, and each is ready at once.
    let mut replace = |fixture: &mut Fixture, waits_seconds: u64| {
        let plan = fixture.decide(&mut state);
        let [gone] = evicted(&plan)[..] else {
            panic!("one eviction: {plan:?}")
        };
        let next = format!("{gone}x");
        carry_out(fixture, &mut state, &plan, &ACCEPTED);
        fixture.delete(gone);
        fixture.now.monotonic += Duration::from_millis(1);
        fixture.pod("web", &next, &json!({}));
        let plan = fixture.decide(&mut state);
        assert_eq!(
            (evicted(&plan).len(), Fixture::reasons(&plan)),
            (0, vec![SkipReason::EvictionIneffective])
        );
        let left = plan.wake_in.expect("it is looked at again");
        assert_eq!(
            left + Duration::from_millis(1),
            Duration::from_secs(waits_seconds),
            "{next}"
        );
        fixture.now.monotonic += left;
    };
    for waits_seconds in [
        1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600,
    ] {
        replace(&mut fixture, waits_seconds);
    }
    assert_eq!(evicted(&fixture.decide(&mut state)).len(), 1);
}

/// Evicts the only pod, which comes back as it was.
fn evict_in_vain(fixture: &mut Fixture, state: &mut RolloutState) {
    let plan = fixture.decide(state);
    let [gone] = evicted(&plan)[..] else {
        panic!("one eviction: {plan:?}")
    };
    carry_out(fixture, state, &plan, &ACCEPTED);
    fixture.delete(gone);
    fixture.now.monotonic += Duration::from_millis(1);
    fixture.pod("web", &format!("{gone}x"), &json!({}));
}

#[test]
fn another_bound_is_not_another_recommendation() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 1, &json!({"minReplicas": 1}));
    let mut state = RolloutState::default();
    evict_in_vain(&mut fixture, &mut state);
    fixture.bound("web", "901m");
    assert_eq!(
        Fixture::reasons(&fixture.decide(&mut state)),
        [SkipReason::EvictionIneffective]
    );
}

#[test]
fn another_recommendation_is_tried_at_once_and_does_not_end_the_pauses() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 1, &json!({"minReplicas": 1}));
    let mut state = RolloutState::default();
    evict_in_vain(&mut fixture, &mut state);
    for expected in [2, 4] {
        fixture.now.monotonic += fixture
            .decide(&mut state)
            .wake_in
            .expect("it is looked at again");
        evict_in_vain(&mut fixture, &mut state);
        let left = fixture
            .decide(&mut state)
            .wake_in
            .map(|left| left + Duration::from_millis(1));
        assert_eq!(left, Some(Duration::from_secs(expected)));
    }
    fixture.recommend("web", "2");
    evict_in_vain(&mut fixture, &mut state);
    let left = fixture
        .decide(&mut state)
        .wake_in
        .map(|left| left + Duration::from_millis(1));
    assert_eq!(
        left,
        Some(Duration::from_secs(4)),
        "as long as the pause that was cut short"
    );
    fixture.now.monotonic += Duration::from_hours(2);
    evict_in_vain(&mut fixture, &mut state);
    let left = fixture
        .decide(&mut state)
        .wake_in
        .map(|left| left + Duration::from_millis(1));
    assert_eq!(left, Some(Duration::from_secs(1)), "a new series");
}

#[test]
fn pods_that_are_made_while_something_else_is_recommended_are_evicted_at_once() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 1, &json!({"minReplicas": 1}));
    let mut state = RolloutState::default();
    let plan = fixture.decide(&mut state);
    carry_out(&fixture, &mut state, &plan, &ACCEPTED);
    fixture.delete("web-0");
    fixture.now.monotonic += Duration::from_millis(1);
    fixture.pod("web", "web-1", &json!({"cpu": "1"}));
    assert_eq!(fixture.decide(&mut state).actions, []);
    fixture.recommend("web", "2");
    assert_eq!(evicted(&fixture.decide(&mut state)), ["web-1"]);
}

#[test]
fn eviction_requirements_are_a_reason_to_skip() {
    let mut fixture = Fixture::new();
    let less = json!([{"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}]);
    fixture.deployment("web", 2, &json!({"evictionRequirements": less}));
    let plan = fixture.decide(&mut RolloutState::default());
    assert_eq!(
        (evicted(&plan).len(), Fixture::reasons(&plan)),
        (0, vec![SkipReason::EvictionRequirements])
    );
}

#[test]
fn a_pass_is_due_when_the_window_closes() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 1, &json!({}));
    fixture.annotate("web", rollout::MAINTENANCE_WINDOW, "30 11 * * *; for=1h");
    assert_eq!(
        fixture.decide(&mut RolloutState::default()).wake_in,
        Some(Duration::from_mins(30))
    );
}

//! Decisions about a small cluster, through the public interface.

mod changes;
mod chaos;
mod fixture;
mod in_place;
mod oom;
mod proven_acts;
mod rebalancing;
mod recent_pods;
mod refused_sizes;
mod relief;
mod restart_pace;
mod rolling_updates;
mod settling;
mod sidecars;
mod tolerance;
mod wave_health;
mod wave_histories;
mod waves;
mod whole_pods;

use std::time::Duration;

use rollout::{ActionOutcome, ActionReason, PauseReason, SkipReason};
use serde_json::json;

use fixture::{ACCEPTED, Fixture, TOO_MANY_REQUESTS, evicted, reasons};

fn fixture(replicas: i32) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.deployment("web", replicas, &json!({}));
    fixture
}

/// A Deployment of one pod, which may be evicted.
fn single() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 1, &json!({"minReplicas": 1}));
    fixture
}

#[test]
fn half_of_a_deployment_is_evicted_and_the_rest_once_that_is_back() {
    let mut fixture = fixture(4);
    let plan = fixture.pass();
    assert_eq!(evicted(&plan), ["web-0", "web-1"]);
    assert!(
        plan.actions
            .iter()
            .all(|action| action.reason == ActionReason::OutsideBounds)
    );
    fixture.report(&plan, &ACCEPTED);
    fixture.check_idle("two are on their way");

    fixture.delete("web-0");
    fixture.delete("web-1");
    fixture.check_idle("two are gone");
    fixture.pod("web", "web-4", &json!({"ready": false, "cpu": "1"}));
    fixture.pod("web", "web-5", &json!({"ready": true, "cpu": "1"}));
    fixture.check_evicted(&["web-2"], "one of two replacements is ready");
}

#[test]
fn a_refused_eviction_is_tried_again_later() {
    let mut fixture = fixture(2);
    let plan = fixture.pass();
    fixture.report(&plan, &TOO_MANY_REQUESTS);
    let plan = fixture.pass();
    assert_eq!(evicted(&plan), ["web-1"], "the other one may go meanwhile");
    assert_eq!(plan.wake_in, Some(Duration::from_secs(1)));
    fixture.now.monotonic += Duration::from_secs(1);
    fixture.check_evicted(&["web-0"], "later");
}

#[test]
fn an_eviction_of_unknown_outcome_still_counts() {
    let mut fixture = fixture(2);
    let plan = fixture.pass();
    fixture.report(&plan, &ActionOutcome::Unknown);
    fixture.check_idle("it may have been carried out");
    fixture.now.monotonic += Duration::from_secs(1);
    fixture.check_evicted(&["web-0"], "only the same one");
}

#[test]
fn no_eviction_is_sent_that_a_budget_refuses() {
    let mut fixture = fixture(4);
    fixture.budget("web", 1);
    let plan = fixture.pass();
    assert_eq!(evicted(&plan), ["web-0"]);
    let skips: Vec<SkipReason> = plan.skips.iter().map(|skip| skip.reason).collect();
    assert_eq!(skips, [SkipReason::DisruptionBudget; 3]);
    fixture.report(&plan, &ACCEPTED);
    fixture.check_idle("the budget's status does not show it yet");
    fixture.budget("web-too", 4);
    assert_eq!(
        reasons(&fixture.first_pass()),
        [SkipReason::MultipleBudgets]
    );
}

#[test]
fn a_workload_that_is_too_small_is_left_alone() {
    let mut fixture = fixture(1);
    assert_eq!(fixture.first_pass().actions, []);
    fixture.vpa("web", &json!({"minReplicas": 1}));
    assert_eq!(evicted(&fixture.first_pass()), ["web-0"]);
}

#[test]
fn nothing_is_done_during_a_pause() {
    let mut fixture = fixture(2);
    for pause in [
        PauseReason::Stopped,
        PauseReason::WebhookLeaseMissing,
        PauseReason::WebhookLeaseExpired,
        PauseReason::ViewStale,
    ] {
        fixture.pause = Some(pause);
        assert_eq!(fixture.first_pass().actions, []);
    }
}

/// Evicts the only pod, which comes back as it was: the webhook has no other size for it, and it is
/// ready at once.
#[track_caller]
fn evict_in_vain(fixture: &mut Fixture) {
    let plan = fixture.pass();
    let [gone] = evicted(&plan)[..] else {
        panic!("one eviction: {plan:?}")
    };
    fixture.report(&plan, &ACCEPTED);
    fixture.delete(gone);
    fixture.now.monotonic += Duration::from_millis(1);
    fixture.pod("web", &format!("{gone}x"), &json!({}));
}

/// Checks that the pod waits until `seconds` after the eviction before. Returns what is left of
/// that time.
#[track_caller]
fn check_waits(fixture: &mut Fixture, seconds: u64) -> Duration {
    let left = fixture
        .check_skipped(SkipReason::EvictionIneffective)
        .wake_in;
    let left = left.expect("it is looked at again");
    assert_eq!((left + Duration::from_millis(1)).as_secs(), seconds);
    left
}

#[test]
fn a_recommendation_that_another_program_reverts_is_tried_less_and_less() {
    let mut fixture = single();
    for seconds in [10, 50, 300, 1_800, 10_800, 64_800, 86_400, 86_400] {
        evict_in_vain(&mut fixture);
        let left = check_waits(&mut fixture, seconds);
        fixture.now.monotonic += left;
    }
}

#[test]
fn another_bound_is_not_another_recommendation() {
    let mut fixture = single();
    evict_in_vain(&mut fixture);
    fixture.bound("web", "901m");
    fixture.check_skipped(SkipReason::EvictionIneffective);
}

#[test]
fn another_recommendation_is_tried_at_once_and_later_at_least_every_hour() {
    let mut fixture = single();
    evict_in_vain(&mut fixture);
    for (cpu, seconds) in [(2, 50), (3, 350), (4, 2_150), (5, 3_600), (6, 3_600)] {
        fixture.recommend("web", &cpu.to_string());
        evict_in_vain(&mut fixture);
        let left = check_waits(&mut fixture, 10);
        fixture.now.monotonic += left;
        evict_in_vain(&mut fixture);
        fixture.recommend("web", "99");
        let left = check_waits(&mut fixture, seconds);
        fixture.now.monotonic += left;
    }
}

#[test]
fn pods_that_are_made_while_something_else_is_recommended_are_evicted_at_once() {
    let mut fixture = single();
    let plan = fixture.pass();
    fixture.report(&plan, &ACCEPTED);
    fixture.delete("web-0");
    fixture.now.monotonic += Duration::from_millis(1);
    fixture.pod("web", "web-1", &json!({"cpu": "1"}));
    fixture.check_idle("it has the size");
    fixture.recommend("web", "2");
    fixture.check_evicted(&["web-1"], "another size");
}

#[test]
fn pods_that_got_their_size_follow_a_change_of_the_policy_at_once() {
    let mut fixture = fixture(2);
    let replace = |fixture: &mut Fixture, expected: &str, new: &str, cpu: &str| {
        let plan = fixture.pass();
        assert_eq!(evicted(&plan), [expected]);
        fixture.report(&plan, &ACCEPTED);
        fixture.delete(expected);
        fixture.now.monotonic += Duration::from_millis(1);
        fixture.pod("web", new, &json!({"cpu": cpu}));
    };
    replace(&mut fixture, "web-0", "web-2", "1");
    replace(&mut fixture, "web-1", "web-3", "1");
    fixture.edit_vpa("web", |vpa| {
        let policy = json!({"containerName": "*", "maxAllowed": {"cpu": "500m"}});
        vpa["spec"]["resourcePolicy"] = json!({"containerPolicies": [policy]});
    });
    let settled = fixture.check_skipped(SkipReason::Settling).wake_in;
    fixture.now.monotonic += settled.expect("a pass at its end");
    replace(&mut fixture, "web-2", "web-4", "500m");
    replace(&mut fixture, "web-3", "web-5", "500m");
    fixture.check_idle("both have their size");
}

#[test]
fn eviction_requirements_are_a_reason_to_skip() {
    let mut fixture = Fixture::new();
    let less = json!([{"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}]);
    fixture.deployment("web", 2, &json!({"evictionRequirements": less}));
    fixture.check_skipped(SkipReason::EvictionRequirements);
}

#[test]
fn a_pass_is_due_when_the_window_closes() {
    let mut fixture = fixture(1);
    fixture.annotate("web", rollout::MAINTENANCE_WINDOW, "30 11 * * *; for=1h");
    assert_eq!(fixture.first_pass().wake_in, Some(Duration::from_mins(30)));
}

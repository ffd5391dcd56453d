//! Rolling updates of Deployments in place of evictions.

use std::time::Duration;

use rollout::{
    ActionKind, ActionOutcome, ActionReason, PauseReason, Plan, REPLACEMENT, RollingUpdateRefusal,
    SkipReason,
};
use serde_json::{Value, json};

use super::fixture::{ACCEPTED, Fixture, TOO_MANY_REQUESTS, only_action, pending, reasons};
use super::oom::killed;

const REFUSED: ActionOutcome =
    ActionOutcome::RollingUpdateRefused(RollingUpdateRefusal::RolloutInProgress);
const INTERVAL: Duration = Duration::from_mins(10);

/// A Deployment `web` with pods and this update policy, whose VPA object asks for rolling updates.
fn fixture(replicas: i32, policy: &Value) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.settings.rolling_updates = true;
    fixture.deployment("web", replicas, policy);
    fixture.annotate("web", REPLACEMENT, "RollingUpdate");
    fixture
}

#[track_caller]
fn rolled(plan: &Plan) -> &str {
    let ActionKind::RollingUpdate(update) = &only_action(plan).kind else {
        panic!("a rolling update: {plan:?}")
    };
    assert_eq!(update.uid, "uid-web");
    &update.deployment.name
}

fn replace(fixture: &mut Fixture, old: &str, new: &str, cpu: &str) {
    fixture.delete(old);
    fixture.now.monotonic += Duration::from_millis(1);
    fixture.pod("web", new, &json!({"cpu": cpu}));
}

#[test]
fn one_rolling_update_replaces_the_evictions_of_all_pods() {
    let mut fixture = fixture(3, &json!({}));
    let plan = fixture.pass();
    assert_eq!(rolled(&plan), "web");
    let action = only_action(&plan);
    assert_eq!(action.reason, ActionReason::OutsideBounds);
    assert_eq!(action.changes.len(), 1);
    assert_eq!(reasons(&plan), [SkipReason::RollingUpdatePending]);
    fixture.state.begin(action, fixture.now);
    fixture.check_skipped(SkipReason::RollingUpdatePending);
    fixture.state.end(action, &ACCEPTED, fixture.now);
    fixture.check_skipped(SkipReason::RollingUpdatePending);
    for (old, new) in [("web-0", "web-3"), ("web-1", "web-4"), ("web-2", "web-5")] {
        replace(&mut fixture, old, new, "1");
    }
    assert_eq!(reasons(&fixture.pass()), []);
}

#[test]
fn neither_the_number_of_pods_nor_a_budget_matters() {
    let mut fixture = fixture(1, &json!({}));
    fixture.budget("web", 0);
    assert_eq!(rolled(&fixture.pass()), "web");
}

#[test]
fn the_conditions_of_updates_hold() {
    let mut paused = fixture(1, &json!({}));
    paused.pause = Some(PauseReason::Stopped);
    paused.check_idle("the stop switch is on");

    let less = json!([{"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}]);
    let mut requirements = fixture(1, &json!({"evictionRequirements": less}));
    requirements.check_skipped(SkipReason::EvictionRequirements);

    let mut off = fixture(1, &json!({"updateMode": "Initial"}));
    off.check_idle("the mode leaves running pods alone");
}

#[test]
fn without_the_flag_or_the_annotation_pods_are_evicted() {
    let is_evicted = |fixture: &mut Fixture| {
        let plan = fixture.pass();
        assert_eq!(only_action(&plan).kind, ActionKind::Evict);
    };
    let policy = json!({"minReplicas": 1});
    let mut without_flag = fixture(1, &policy);
    without_flag.settings.rolling_updates = false;
    is_evicted(&mut without_flag);
    let mut evicts = fixture(1, &policy);
    evicts.annotate("web", REPLACEMENT, "Eviction");
    is_evicted(&mut evicts);
}

#[test]
fn an_invalid_annotation_evicts_no_pod() {
    let mut invalid = fixture(2, &json!({}));
    for value in ["rollingupdate", ""] {
        invalid.annotate("web", REPLACEMENT, value);
        invalid.check_skipped(SkipReason::InvalidReplacement);
    }
    let mut other = Fixture::new();
    other.settings.rolling_updates = true;
    other.clone_set("web", 2);
    other.annotate("web", REPLACEMENT, "RollingUpdate");
    other.check_skipped(SkipReason::InvalidReplacement);
}

#[test]
fn a_refused_rolling_update_is_retried_with_backoff() {
    for outcome in [
        REFUSED,
        TOO_MANY_REQUESTS,
        ActionOutcome::Unknown,
        ActionOutcome::Rejected,
    ] {
        let mut fixture = fixture(2, &json!({}));
        for seconds in [5, 10, 20, 40, 80, 160, 320, 600, 600] {
            let plan = fixture.pass();
            assert_eq!(rolled(&plan), "web");
            fixture.report(&plan, &outcome);
            let plan = fixture.check_skipped(SkipReason::RollingUpdateRefused);
            assert_eq!(
                plan.wake_in,
                Some(Duration::from_secs(seconds)),
                "{outcome:?}"
            );
            fixture.now.monotonic += Duration::from_secs(seconds);
        }
    }
}

#[test]
fn ineffective_rolling_updates_are_spaced_out() {
    let mut fixture = fixture(1, &json!({}));
    let mut pod = "web-0".to_owned();
    for minutes in [10, 20, 40, 80, 160, 320, 360, 360] {
        let plan = fixture.pass();
        assert_eq!(rolled(&plan), "web");
        fixture.report(&plan, &ACCEPTED);
        let next = format!("{pod}x");
        replace(&mut fixture, &pod, &next, "100m");
        pod = next;
        let plan = fixture.check_skipped(SkipReason::RollingUpdateIneffective);
        let left = plan.wake_in.expect("it is looked at again");
        assert_eq!(
            left + Duration::from_millis(1),
            Duration::from_mins(minutes)
        );
        fixture.now.monotonic += left;
    }
}

#[test]
fn another_size_waits_for_the_interval_only() {
    let mut fixture = fixture(1, &json!({}));
    let plan = fixture.pass();
    fixture.report(&plan, &ACCEPTED);
    replace(&mut fixture, "web-0", "web-1", "1");
    fixture.recommend("web", "2");
    fixture.check_skipped(SkipReason::RollingUpdatePending);
    fixture.now.monotonic += INTERVAL;
    let plan = fixture.pass();
    fixture.report(&plan, &ACCEPTED);
    replace(&mut fixture, "web-1", "web-2", "2");
    fixture.recommend("web", "3");
    fixture.now.monotonic += INTERVAL;
    assert_eq!(rolled(&fixture.pass()), "web");
}

#[test]
fn a_resize_in_place_is_preferred() {
    let policy = json!({"updateMode": "InPlaceOrRecreate"});
    for (replicas, restarts, expected) in [
        (2, false, "resize"),
        (1, false, "resize"),
        (1, true, "rolling_update"),
    ] {
        let mut fixture = fixture(0, &policy);
        fixture.workload("web", replicas, &policy);
        fixture.annotate("web", REPLACEMENT, "RollingUpdate");
        for index in 0..replicas {
            fixture.pod_with("web", &format!("web-{index}"), &json!({}), |pod| {
                if restarts {
                    pod["spec"]["containers"][0]["resizePolicy"] =
                        json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
                }
            });
        }
        let plan = fixture.pass();
        assert_eq!(
            plan.actions[0].kind.as_str(),
            expected,
            "{replicas} {restarts}"
        );
    }
}

#[test]
fn a_resize_that_the_kubelet_defers_too_long_becomes_a_rolling_update() {
    for (since, expected) in [
        ("2026-01-01T11:54:59Z", true),
        ("2026-01-01T11:56:00Z", false),
    ] {
        let mut fixture = fixture(0, &json!({"updateMode": "InPlaceOrRecreate"}));
        fixture.workload("web", 1, &json!({"updateMode": "InPlaceOrRecreate"}));
        fixture.annotate("web", REPLACEMENT, "RollingUpdate");
        fixture.pod_with("web", "web-0", &json!({}), |pod| {
            pending(pod, "Deferred", since);
        });
        let plan = fixture.pass();
        assert_eq!(
            plan.actions.len(),
            usize::from(expected),
            "{since}: {plan:?}"
        );
        if expected {
            assert_eq!(rolled(&plan), "web");
        }
    }
}

#[test]
fn a_killed_pod_that_is_not_ready_is_evicted_while_its_deployment_gets_no_rolling_update() {
    for (ready, is_evicted) in [(false, true), (true, false)] {
        let mut fixture = fixture(0, &json!({"minReplicas": 1}));
        fixture.workload("web", 1, &json!({"minReplicas": 1}));
        fixture.annotate("web", REPLACEMENT, "RollingUpdate");
        fixture.pod_with("web", "web-0", &json!({"ready": ready}), killed);
        fixture.check_skipped(SkipReason::RecentOomKill);
        fixture.now.monotonic += Duration::from_secs(1);
        let plan = fixture.pass();
        assert_eq!(rolled(&plan), "web");
        assert!(only_action(&plan).oom_kill.is_some());
        fixture.report(&plan, &REFUSED);
        let plan = fixture.pass();
        let evicts = plan
            .actions
            .iter()
            .any(|action| action.kind == ActionKind::Evict);
        assert_eq!(evicts, is_evicted, "ready: {ready}");
    }
}

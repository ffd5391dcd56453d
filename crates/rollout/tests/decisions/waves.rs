//! Waves of new requests through the pods of a workload, and recommendations that are rolled back.

use std::time::Duration;

use api::rollback::{ROLLED_BACK, Rollback};
use rollout::{ActionOutcome, Plan, RolloutState, SkipReason, VpaPauseReason, WaveSettings};
use serde_json::{Value, json};

use super::fixture::{ACCEPTED, Fixture, evicted, not_resized_yet, push, set_requests};

pub(super) const MINUTE: Duration = Duration::from_mins(1);

/// A Deployment whose pods ask for 100m, with a recommendation of one core.
pub(super) fn fixture(replicas: i32, policy: &Value) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.settings.waves = Some(WaveSettings::default());
    fixture.settings.eviction_tolerance = 1.0;
    fixture.deployment("web", replicas, policy);
    fixture
}

pub(super) fn pass_time(fixture: &mut Fixture, passed: Duration) {
    fixture.now.monotonic += passed;
    fixture.now.wall += passed;
}

/// The container of a pod ended a second time, and waits for its next restart.
pub(super) fn backs_off(at: &str, pod: &mut Value) {
    pod["status"]["conditions"][0]["status"] = json!("False");
    let end = json!({"exitCode": 1, "reason": "Error", "startedAt": at, "finishedAt": at});
    pod["status"]["containerStatuses"] = json!([{
        "name": "app", "ready": false, "restartCount": 1, "image": "", "imageID": "",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": end},
    }]);
}

/// Carries out the evictions of a pass. The replacements ask for as much CPU as `size`.
pub(super) fn replace(fixture: &mut Fixture, size: &str) -> Plan {
    let plan = fixture.pass();
    fixture.report(&plan, &ACCEPTED);
    for action in &plan.actions {
        fixture.delete(&action.pod.name);
        let name = format!("{}x", action.pod.name);
        fixture.pod("web", &name, &json!({"cpu": size}));
    }
    fixture.pass();
    plan
}

/// Writes the annotation that a plan asks for.
pub(super) fn write(fixture: &mut Fixture, plan: &Plan) -> Rollback {
    let [change] = plan.rollbacks.as_slice() else {
        panic!("one change: {plan:?}")
    };
    assert_eq!(change.uid, "uid-web");
    let rollback = change.rollback.clone().expect("rolled back");
    fixture.annotate("web", ROLLED_BACK, &json!(rollback).to_string());
    rollback
}

/// The first pod with the new requests fails, and the recommendation is rolled back.
fn rolled_back() -> Fixture {
    let mut fixture = fixture(8, &json!({}));
    assert_eq!(evicted(&replace(&mut fixture, "1")), ["web-0"]);
    let ended = fixture.now.wall.to_string();
    fixture.pod_with("web", "web-0x", &json!({"cpu": "1"}), |pod| {
        backs_off(&ended, pod);
    });
    let plan = fixture.pass();
    assert_eq!(plan.actions, []);
    let rollback = write(&mut fixture, &plan);
    assert_eq!(
        rollback.problem,
        "1 of 1 pods with the new requests fail, 0 of 7 with the former ones; web-0x: container app ends \
         again and again"
    );
    fixture
}

#[test]
fn one_of_four_pods_counts_until_its_replacement_is_there() {
    let mut fixture = fixture(4, &json!({"updateMode": "Recreate"}));
    let plan = fixture.pass();
    fixture.report(&plan, &ACCEPTED);
    let [action] = plan.actions.as_slice() else {
        panic!("one eviction: {plan:?}")
    };
    fixture.delete(&action.pod.name);
    assert_eq!(fixture.pass().actions, []);
}

#[test]
fn one_pod_comes_first_and_three_follow_each_that_is_well() {
    let mut fixture = fixture(24, &json!({}));
    for expected in [1, 3, 12, 8] {
        let plan = replace(&mut fixture, "1");
        assert_eq!(evicted(&plan).len(), expected);
        fixture.check_idle("none has been well for long enough");
        pass_time(&mut fixture, Duration::from_secs(59));
        fixture.check_idle("almost");
        pass_time(&mut fixture, Duration::from_secs(1));
    }
    fixture.check_idle("all have the requests");
}

#[test]
fn pods_that_wait_say_so_and_the_next_pass_is_due() {
    let mut fixture = fixture(8, &json!({}));
    replace(&mut fixture, "1");
    let plan = fixture.check_skipped(SkipReason::Wave);
    assert_eq!(plan.wake_in, Some(MINUTE));
}

#[test]
fn a_replacement_without_a_node_counts_for_ten_minutes() {
    let mut fixture = fixture(8, &json!({}));
    let plan = fixture.pass();
    fixture.report(&plan, &ACCEPTED);
    assert_eq!(evicted(&plan), ["web-0"]);
    fixture.delete("web-0");
    fixture.check_skipped(SkipReason::Wave);
    pass_time(&mut fixture, Duration::from_secs(599));
    fixture.check_skipped(SkipReason::Wave);
    pass_time(&mut fixture, Duration::from_secs(1));
    assert_eq!(evicted(&fixture.pass()), ["web-1"]);
}

#[test]
fn a_pod_that_failed_before_its_resize_proves_nothing() {
    let mut fixture = fixture(8, &json!({"updateMode": "InPlaceOrRecreate"}));
    let ended = fixture.now.wall.to_string();
    for cpu in ["100m", "1"] {
        fixture.pod_with("web", "web-0", &json!({"cpu": cpu}), |pod| {
            backs_off(&ended, pod);
        });
        assert_eq!(fixture.pass().rollbacks, []);
    }
}

#[test]
fn pods_of_another_revision_prove_nothing() {
    let mut fixture = fixture(8, &json!({}));
    replace(&mut fixture, "1");
    let ended = fixture.now.wall.to_string();
    fixture.pod_with("web", "web-0x", &json!({"cpu": "1"}), |pod| {
        backs_off(&ended, pod);
        pod["metadata"]["labels"]["pod-template-hash"] = json!("new");
    });
    let plan = fixture.pass();
    assert_eq!((plan.rollbacks, plan.actions), (vec![], vec![]));
}

#[test]
fn a_rollback_leaves_pods_of_other_sizes_alone() {
    let mut fixture = fixture(8, &json!({}));
    fixture.pod("web", "web-7", &json!({"cpu": "50m"}));
    replace(&mut fixture, "1");
    let ended = fixture.now.wall.to_string();
    let name = fixture
        .view
        .pods
        .iter()
        .find(|pod| pod.key.name.ends_with('x'));
    let name = name.expect("a replacement").key.name.clone();
    fixture.pod_with("web", &name, &json!({"cpu": "1"}), |pod| {
        backs_off(&ended, pod);
    });
    let plan = fixture.pass();
    let rollback = write(&mut fixture, &plan);
    let former = rollback.former.containers[0].target.cpu();
    assert_eq!(former, Some(model::Cpu::from_millicores(100)));
    assert_eq!(evicted(&replace(&mut fixture, "100m")), [name]);
    fixture.check_idle("the pods with 50m and 100m keep them");
}

#[test]
fn few_pods_have_no_waves_and_no_setting_none() {
    let mut few = fixture(3, &json!({}));
    assert_eq!(evicted(&few.pass()).len(), 3);
    let mut off = fixture(8, &json!({}));
    off.settings.waves = None;
    assert_eq!(evicted(&off.pass()).len(), 8);
}

#[test]
fn pods_that_fail_get_their_former_requests_back_and_the_others_keep_theirs() {
    let mut fixture = rolled_back();
    let plan = replace(&mut fixture, "100m");
    assert_eq!(evicted(&plan), ["web-0x"]);
    let paused = plan.paused.iter().map(|it| &it.reason);
    let is_said = |it: &VpaPauseReason| matches!(it, VpaPauseReason::RolledBack(text) if text.contains("web-0x"));
    assert!(paused.clone().any(is_said), "{:?}", plan.paused);
    let plan = fixture.pass();
    assert_eq!(
        (plan.actions, plan.skips, plan.rollbacks),
        (vec![], vec![], vec![])
    );
}

#[test]
fn a_new_leader_goes_on_with_a_rollback_and_begins_a_wave_anew() {
    let mut fixture = rolled_back();
    fixture.state = RolloutState::default();
    assert_eq!(evicted(&replace(&mut fixture, "100m")), ["web-0x"]);

    let mut fixture = self::fixture(24, &json!({}));
    replace(&mut fixture, "1");
    pass_time(&mut fixture, MINUTE);
    fixture.state = RolloutState::default();
    fixture.check_idle("how long a pod has had its requests is not known");
    pass_time(&mut fixture, MINUTE);
    assert_eq!(evicted(&fixture.pass()).len(), 3);
}

#[test]
fn another_target_and_a_day_end_a_rollback() {
    let check = |change: fn(&mut Fixture), expected: &[&str]| {
        let mut fixture = rolled_back();
        change(&mut fixture);
        let plan = fixture.pass();
        let removed = plan.rollbacks.iter().map(|it| &it.rollback);
        assert_eq!(removed.collect::<Vec<_>>(), [&None]);
        assert_eq!(evicted(&plan), expected);
    };
    // The failing pod holds the next wave back for ten minutes.
    check(|fixture| fixture.recommend("web", "1200m"), &["web-1"]);
    check(|fixture| pass_time(fixture, MINUTE * 60 * 24), &["web-0x"]);
}

#[test]
fn pods_that_fail_with_their_former_requests_too_prove_nothing() {
    let mut fixture = fixture(8, &json!({}));
    replace(&mut fixture, "1");
    let ended = fixture.now.wall.to_string();
    for (name, cpu) in [
        ("web-0x", "1"),
        ("web-1", "100m"),
        ("web-2", "100m"),
        ("web-3", "100m"),
        ("web-4", "100m"),
    ] {
        fixture.pod_with("web", name, &json!({"cpu": cpu}), |pod| {
            backs_off(&ended, pod);
        });
    }
    let plan = fixture.pass();
    assert_eq!((plan.rollbacks, plan.actions), (vec![], vec![]));
}

#[test]
fn a_pod_that_is_late_fails_and_a_slow_start_is_not_late() {
    let check = |starts_in: &str, waits: u32, is_rolled_back: bool| {
        let mut fixture = fixture(8, &json!({}));
        for index in 0..8 {
            fixture.pod_with("web", &format!("web-{index}"), &json!({}), |pod| {
                pod["metadata"]["creationTimestamp"] = json!("2026-01-01T10:00:00Z");
                pod["status"]["conditions"][0]["lastTransitionTime"] = json!(starts_in);
            });
        }
        replace(&mut fixture, "1");
        fixture.pod("web", "web-0x", &json!({"cpu": "1", "ready": false}));
        pass_time(&mut fixture, Duration::from_secs(30));
        assert_eq!(fixture.pass().rollbacks, []);
        pass_time(&mut fixture, MINUTE * waits);
        assert_eq!(
            !fixture.pass().rollbacks.is_empty(),
            is_rolled_back,
            "{starts_in} {waits}"
        );
    };
    check("2026-01-01T10:00:10Z", 1, true);
    check("2026-01-01T10:01:00Z", 1, false);
    check("2026-01-01T10:01:00Z", 2, true);
}

#[test]
fn an_oom_kill_counts_with_less_memory_than_others_have() {
    let check = |memory: &str, expected: Option<&str>| {
        let mut fixture = fixture(8, &json!({}));
        for index in 0..8 {
            fixture.pod_with("web", &format!("web-{index}"), &json!({}), |pod| {
                set_requests(pod, "100m", memory);
            });
        }
        replace(&mut fixture, "1");
        let killed = fixture.now.wall.to_string();
        fixture.pod_with("web", "web-0x", &json!({"cpu": "1"}), |pod| {
            backs_off(&killed, pod);
            let status = &mut pod["status"]["containerStatuses"][0];
            status["lastState"]["terminated"]["reason"] = json!("OOMKilled");
        });
        let plan = fixture.pass();
        let rollback = plan.rollbacks.first().and_then(|it| it.rollback.as_ref());
        let problem = rollback.map(|it| it.problem.as_str());
        assert_eq!(problem.is_some(), expected.is_some(), "{memory}: {plan:?}");
        assert!(
            problem.is_none_or(|it| it.ends_with(expected.unwrap_or(""))),
            "{problem:?}"
        );
    };
    check("200Mi", Some("web-0x: container app was OOM killed"));
    check("50Mi", None);
}

#[test]
fn a_pod_proves_its_requests_from_their_effect_on() {
    let mut fixture = fixture(8, &json!({"updateMode": "InPlaceOrRecreate"}));
    fixture.pass();
    pass_time(&mut fixture, MINUTE * 60);
    let plan = fixture.pass();
    let generation = Some(2);
    fixture.report(&plan, &ActionOutcome::Accepted { generation });
    fixture.check_idle("the resize is underway");
    for has_effect in [false, true] {
        fixture.pod_with("web", "web-0", &json!({"cpu": "1"}), |pod| {
            pod["metadata"]["generation"] = json!(2);
            pod["status"]["observedGeneration"] = json!(2);
            if !has_effect {
                not_resized_yet(pod);
                let condition = json!({"type": "PodResizeInProgress", "status": "True"});
                push(&mut pod["status"]["conditions"], condition);
            }
        });
        fixture.check_idle("the kubelet is at it, or the effect is new");
    }
    pass_time(&mut fixture, Duration::from_secs(59));
    fixture.check_skipped(SkipReason::Wave);
    pass_time(&mut fixture, Duration::from_secs(1));
    assert_eq!(fixture.pass().actions.len(), 3);
}

#[test]
fn the_pods_of_a_stateful_set_go_from_the_last_ordinal() {
    let mut fixture = Fixture::new();
    fixture.settings.waves = Some(WaveSettings::default());
    fixture.settings.eviction_tolerance = 1.0;
    fixture.stateful_set("db", 12);
    assert_eq!(evicted(&fixture.pass()), ["db-11"]);
}

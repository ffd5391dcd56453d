//! Pace of restarts: the pods that go in each minute.

use std::collections::BTreeMap;
use std::time::Duration;

use rollout::{RolloutState, SkipReason};
use serde_json::{Value, json};

use super::fixture::{ACCEPTED, Fixture, reasons};
use super::oom::killed;

/// Namespaces with this many pods each, in Deployments of ten. None has the recommended size.
fn fixture(pods: &[(&str, i32)]) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.settings.paces_restarts = true;
    for (namespace, pods) in pods {
        (*namespace).clone_into(&mut fixture.namespace);
        for index in 0..pods / 10 {
            let app = format!("{namespace}-{index}");
            fixture.deployment(&app, 10, &json!({}));
            fixture.made_at(&app, "2026-01-01T11:00:00Z");
        }
    }
    fixture
}

/// Carries out everything that a minute allows. Replacements have the recommended size and come as
/// `become` says. Returns the restarts by namespace.
fn minute(fixture: &mut Fixture, becomes: impl Fn(&str, &mut Value)) -> BTreeMap<String, usize> {
    let mut restarts = BTreeMap::new();
    let created = json!(fixture.now.wall.to_string());
    loop {
        let plan = fixture.pass();
        if plan.actions.is_empty() {
            break;
        }
        fixture.report(&plan, &ACCEPTED);
        for action in &plan.actions {
            let namespace = &action.pod.namespace;
            *restarts.entry(namespace.clone()).or_default() += 1;
            fixture.namespace.clone_from(namespace);
            fixture.delete(&action.pod.name);
            let name = format!("{}x", action.pod.name);
            fixture.pod_with(&action.vpa.name, &name, &json!({"cpu": "1"}), |pod| {
                pod["metadata"]["creationTimestamp"] = created.clone();
                Fixture::reviewed(pod);
                becomes(namespace, pod);
            });
        }
        fixture.now.monotonic += Duration::from_millis(1);
    }
    pass_time(fixture, Duration::from_mins(1));
    restarts
}

fn pass_time(fixture: &mut Fixture, passed: Duration) {
    fixture.now.monotonic += passed;
    fixture.now.wall += passed;
}

fn is_well(_: &str, _: &mut Value) {}

/// The container of a pod ended.
fn crashes(pod: &mut Value) {
    let end = json!({"exitCode": 1, "reason": "Error"});
    pod["status"]["conditions"][0]["status"] = json!("False");
    pod["status"]["containerStatuses"] = json!([{
        "name": "app", "ready": false, "restartCount": 1, "image": "", "imageID": "",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": end},
    }]);
}

/// The restarts of these minutes, of all namespaces.
fn sums(fixture: &mut Fixture, minutes: usize) -> Vec<usize> {
    let sums = (0..minutes).map(|_| minute(fixture, is_well).values().sum());
    sums.collect()
}

#[test]
fn a_namespace_begins_with_five_pods_a_minute_and_doubles() {
    let mut fixture = fixture(&[("shop", 100)]);
    assert_eq!(sums(&mut fixture, 6), [5, 10, 20, 40, 25, 0]);
}

#[test]
fn a_large_cluster_begins_with_a_hundredth_and_its_namespaces_take_turns() {
    let mut fixture = fixture(&[("a", 2000), ("b", 500), ("c", 100)]);
    let counts: Vec<Vec<usize>> = (0..3)
        .map(|_| minute(&mut fixture, is_well).into_values().collect())
        .collect();
    // 26 in all, of which "b" and "c" may have 5 each; then 52 of 40 + 10 + 10; then 104.
    assert_eq!(counts, [[16, 5, 5], [32, 10, 10], [64, 20, 20]]);
}

#[test]
fn a_namespace_whose_new_pods_fail_slows_down_alone() {
    let mut fixture = fixture(&[("bad", 100), ("good", 100)]);
    let becomes = |namespace: &str, pod: &mut Value| {
        if namespace == "bad" {
            crashes(pod);
        }
    };
    let counts: Vec<_> = (0..4)
        .map(|_| minute(&mut fixture, becomes))
        .map(|counts| (counts["bad"], counts["good"]))
        .collect();
    assert_eq!(counts, [(5, 5), (2, 10), (1, 20), (1, 40)]);
}

#[test]
fn pods_that_are_not_ready_yet_keep_the_pace() {
    let mut fixture = fixture(&[("shop", 100)]);
    let counts: Vec<usize> = (0..2)
        .map(|_| {
            minute(&mut fixture, |_, pod| {
                pod["status"]["conditions"][0]["status"] = json!("False");
            })
        })
        .map(|counts| counts["shop"])
        .collect();
    assert_eq!(counts, [5, 5]);
}

#[test]
fn a_new_leader_and_a_pause_of_ten_minutes_begin_anew() {
    let mut fixture = fixture(&[("shop", 100)]);
    assert_eq!(sums(&mut fixture, 3), [5, 10, 20]);
    fixture.state = RolloutState::default();
    assert_eq!(sums(&mut fixture, 2), [5, 10]);
    fixture.pause = Some(rollout::PauseReason::Stopped);
    pass_time(&mut fixture, Duration::from_mins(11));
    fixture.pass();
    fixture.pause = None;
    assert_eq!(sums(&mut fixture, 1), [5]);
}

#[test]
fn pods_that_wait_say_so_and_another_pass_is_due_when_the_minute_ends() {
    let mut fixture = fixture(&[("shop", 30)]);
    let plan = fixture.pass();
    assert_eq!(plan.actions.len(), 5);
    fixture.report(&plan, &ACCEPTED);
    pass_time(&mut fixture, Duration::from_secs(10));
    let plan = fixture.pass();
    assert_eq!(plan.actions.len(), 0);
    assert!(reasons(&plan).contains(&SkipReason::Paced), "{plan:?}");
    assert_eq!(plan.wake_in, Some(Duration::from_secs(50)));
}

#[test]
fn a_refused_eviction_does_not_count() {
    let mut fixture = fixture(&[("shop", 30)]);
    let plan = fixture.pass();
    fixture.report(&plan, &super::fixture::TOO_MANY_REQUESTS);
    assert_eq!(fixture.pass().actions.len(), 5);
}

#[test]
fn oom_killed_pods_do_not_wait() {
    let mut fixture = fixture(&[("shop", 100)]);
    for index in 0..10 {
        for pod in 0..5 {
            let app = format!("shop-{index}");
            let name = format!("{app}-{pod}");
            fixture.pod_with(&app, &name, &json!({}), killed);
        }
    }
    fixture.pass();
    fixture.now.monotonic += Duration::from_secs(1);
    assert_eq!(fixture.pass().actions.len(), 50);
}

#[test]
fn without_the_flag_there_is_no_limit() {
    let mut fixture = fixture(&[("shop", 100)]);
    fixture.settings.paces_restarts = false;
    assert_eq!(fixture.pass().actions.len(), 50);
}

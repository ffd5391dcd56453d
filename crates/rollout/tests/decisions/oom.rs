//! Pods whose containers were OOM killed soon after their start.

use std::time::Duration;

use rollout::{ActionKind, ActionOutcome, ActionReason, QuickOomKill, SkipReason};
use serde_json::{Value, json};

use super::fixture::{ACCEPTED, Fixture, evicted, only_action};

pub(super) fn killed(pod: &mut Value) {
    killed_at(pod, "2026-01-01T11:59:30Z", "2026-01-01T11:59:59Z");
}

/// The container ran between these times until it was OOM killed, and runs again.
pub(super) fn killed_at(pod: &mut Value, started: &str, finished: &str) {
    let terminated = json!({"exitCode": 137, "reason": "OOMKilled", "startedAt": started, "finishedAt": finished});
    pod["status"]["containerStatuses"] = json!([{
        "name": "app", "ready": true, "restartCount": 1, "image": "", "imageID": "",
        "state": {"running": {}}, "lastState": {"terminated": terminated},
    }]);
}

fn killed_again(pod: &mut Value) {
    killed_at(pod, "2026-01-01T11:59:30Z", "2026-01-01T12:00:00Z");
}

/// A Deployment of one pod, which was killed.
fn fixture(pod: &str) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.workload("web", 1, &json!({"minReplicas": 1}));
    fixture.pod_with("web", pod, &json!({}), killed);
    fixture
}

#[test]
fn a_kill_shows_for_a_second_before_its_pod_is_evicted() {
    let mut fixture = fixture("web-0");
    let plan = fixture.check_skipped(SkipReason::RecentOomKill);
    assert_eq!(plan.wake_in, Some(Duration::from_secs(1)));
    fixture.now.monotonic += Duration::from_secs(1);
    let plan = fixture.pass();
    assert_eq!(evicted(&plan), ["web-0"]);
    assert_eq!(plan.actions[0].reason, ActionReason::QuickOom);
}

#[test]
fn each_kill_shows_for_a_second() {
    let mut fixture = fixture("web-0");
    fixture.pass();
    fixture.now.monotonic += Duration::from_secs(1);
    fixture.pod_with("web", "web-0", &json!({}), killed_again);
    fixture.check_skipped(SkipReason::RecentOomKill);
    fixture.now.monotonic += Duration::from_secs(1);
    fixture.check_evicted(&["web-0"], "a second after the second kill");
}

#[test]
fn a_pod_that_stays_is_resized_at_once_and_says_what_was_killed() {
    let mut fixture = Fixture::new();
    let policy = json!({"minReplicas": 1, "updateMode": "InPlaceOrRecreate"});
    fixture.workload("web", 1, &policy);
    fixture.pod_with("web", "web-0", &json!({}), |pod| {
        killed(pod);
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": "1", "memory": "60Mi"}, "limits": {"memory": "80Mi"}});
    });
    let plan = fixture.first_pass();
    let action = only_action(&plan);
    assert!(
        matches!(action.kind, ActionKind::Resize { .. }),
        "{action:?}"
    );
    let quantity = |text: &str| text.parse().ok();
    let expected = QuickOomKill {
        container: "app".to_owned(),
        ran_for: Duration::from_secs(29),
        ended_at: "2026-01-01T11:59:59Z".parse().expect("a time"),
        request: quantity("60Mi"),
        limit: quantity("80Mi"),
        target: quantity("100Mi"),
    };
    assert_eq!(action.oom_kill, Some(expected));
}

#[test]
fn killed_pods_that_come_back_as_they_were_are_evicted_less_and_less() {
    let mut fixture = fixture("web");
    fixture.pass();
    fixture.now.monotonic += Duration::from_secs(1);
    for waits_seconds in [10, 50, 300] {
        let plan = fixture.pass();
        let [gone] = evicted(&plan)[..] else {
            panic!("one eviction: {plan:?}")
        };
        assert_eq!(plan.actions[0].reason, ActionReason::QuickOom);
        fixture.report(&plan, &ACCEPTED);
        fixture.delete(gone);
        fixture.now.monotonic += Duration::from_millis(1);
        fixture.pod_with("web", &format!("{gone}x"), &json!({}), killed);
        // Its kill is seen by others meanwhile.
        fixture.pass();
        let plan = fixture.check_skipped(SkipReason::EvictionIneffective);
        let left = plan.wake_in.expect("it is looked at again");
        assert_eq!((left + Duration::from_millis(1)).as_secs(), waits_seconds);
        fixture.now.monotonic += left;
    }
}

#[test]
fn each_kill_is_recorded_once_although_its_eviction_is_refused() {
    let mut fixture = fixture("web-0");
    fixture.pass();
    let records = |fixture: &mut Fixture| {
        fixture.now.monotonic += Duration::from_mins(1);
        let plan = fixture.pass();
        let is_recorded = fixture
            .state
            .unrecorded_oom_kill(only_action(&plan))
            .is_some();
        fixture.report(&plan, &ActionOutcome::Rejected);
        is_recorded
    };
    assert_eq!(
        [(); 3].map(|()| records(&mut fixture)),
        [true, false, false]
    );
    fixture.pod_with("web", "web-0", &json!({}), killed_again);
    fixture.pass();
    assert_eq!(
        [(); 2].map(|()| records(&mut fixture)),
        [true, false],
        "there is another kill"
    );
}

#[test]
fn a_kill_counts_for_as_long_as_its_run_may_last() {
    // The pod is young, and within its bounds.
    let check = |policy: &Value, since_kill: Duration, expected: &[&str]| {
        let mut fixture = Fixture::new();
        fixture.settings.per_vpa_config = true;
        fixture.workload("web", 1, policy);
        fixture.pod_with("web", "web-0", &json!({"cpu": "950m"}), killed);
        fixture.now.wall = "2026-01-01T11:59:59Z".parse().expect("a time");
        fixture.now.wall += since_kill.saturating_sub(Duration::from_secs(1));
        fixture.pass();
        fixture.now.wall += Duration::from_secs(1);
        fixture.now.monotonic += Duration::from_secs(1);
        assert_eq!(
            evicted(&fixture.pass()),
            expected,
            "{policy}, {since_kill:?}"
        );
    };
    let default = json!({"minReplicas": 1});
    check(&default, Duration::from_secs(599), &["web-0"]);
    check(&default, Duration::from_mins(10), &[]);
    let own = json!({"minReplicas": 1, "evictAfterOOMSeconds": 60});
    check(&own, Duration::from_secs(59), &["web-0"]);
    check(&own, Duration::from_mins(1), &[]);
}

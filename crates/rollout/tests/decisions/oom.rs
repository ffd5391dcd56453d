//! Pods whose containers were killed soon after their start.

use std::time::Duration;

use rollout::{ActionKind, ActionOutcome, ActionReason, QuickOomKill, RolloutState, SkipReason};
use serde_json::{Value, json};

use super::fixture::Fixture;
use super::{ACCEPTED, carry_out, evicted};

pub(super) fn killed(pod: &mut Value) {
    pod["status"]["containerStatuses"] = json!([{
        "name": "app", "ready": true, "restartCount": 1, "image": "", "imageID": "",
        "lastState": {"terminated": {
            "exitCode": 137, "reason": "OOMKilled",
            "startedAt": "2026-01-01T11:59:30Z", "finishedAt": "2026-01-01T11:59:59Z",
        }},
    }]);
}

#[test]
fn a_kill_shows_for_a_second_before_its_pod_is_evicted() {
    let mut fixture = Fixture::new();
    fixture.workload("web", 1, &json!({"minReplicas": 1}));
    fixture.pod_with("web", "web-0", &json!({}), killed);
    let mut state = RolloutState::default();
    let plan = fixture.decide(&mut state);
    assert_eq!(
        (plan.actions.len(), Fixture::reasons(&plan)),
        (0, vec![SkipReason::RecentOomKill])
    );
    assert_eq!(plan.wake_in, Some(Duration::from_secs(1)));
    fixture.now.monotonic += Duration::from_secs(1);
    let plan = fixture.decide(&mut state);
    assert_eq!(
        (evicted(&plan), plan.actions[0].reason),
        (vec!["web-0"], ActionReason::QuickOom)
    );
}

#[test]
fn each_kill_shows_for_a_second() {
    let mut fixture = Fixture::new();
    fixture.workload("web", 1, &json!({"minReplicas": 1}));
    fixture.pod_with("web", "web-0", &json!({}), killed);
    let mut state = RolloutState::default();
    fixture.decide(&mut state);
    fixture.now.monotonic += Duration::from_secs(1);
    fixture.pod_with("web", "web-0", &json!({}), |pod| {
        killed(pod);
        pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["finishedAt"] =
            json!("2026-01-01T12:00:00Z");
    });
    assert_eq!(
        Fixture::reasons(&fixture.decide(&mut state)),
        [SkipReason::RecentOomKill]
    );
    fixture.now.monotonic += Duration::from_secs(1);
    assert_eq!(evicted(&fixture.decide(&mut state)), ["web-0"]);
}

#[test]
fn a_pod_that_stays_is_resized_at_once_and_says_what_was_killed() {
    let mut fixture = Fixture::new();
    fixture.workload(
        "web",
        1,
        &json!({"minReplicas": 1, "updateMode": "InPlaceOrRecreate"}),
    );
    fixture.pod_with("web", "web-0", &json!({}), |pod| {
        killed(pod);
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": "1", "memory": "60Mi"}, "limits": {"memory": "80Mi"}});
    });
    let plan = fixture.decide(&mut RolloutState::default());
    let [action] = plan.actions.as_slice() else {
        panic!("one act: {plan:?}")
    };
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
fn killed_pods_that_come_back_as_they_were_are_left_alone_for_longer_and_longer() {
    let mut fixture = Fixture::new();
    fixture.workload("web", 1, &json!({"minReplicas": 1}));
    fixture.pod_with("web", "web", &json!({}), killed);
    let mut state = RolloutState::default();
    fixture.decide(&mut state);
    fixture.now.monotonic += Duration::from_secs(1);
    for waits_seconds in [1, 2, 4, 8, 16] {
        let plan = fixture.decide(&mut state);
        let [gone] = evicted(&plan)[..] else {
            panic!("one eviction: {plan:?}")
        };
        let next = format!("{gone}x");
        assert_eq!(plan.actions[0].reason, ActionReason::QuickOom);
        carry_out(&fixture, &mut state, &plan, &ACCEPTED);
        fixture.delete(gone);
        fixture.now.monotonic += Duration::from_millis(1);
        fixture.pod_with("web", &next, &json!({}), killed);
        // Its kill is seen by others meanwhile.
        fixture.decide(&mut state);
        fixture.now.monotonic += Duration::from_millis(waits_seconds * 1000 - 2);
        let plan = fixture.decide(&mut state);
        assert_eq!(
            (evicted(&plan).len(), Fixture::reasons(&plan)),
            (0, vec![SkipReason::EvictionIneffective]),
            "{next}"
        );
        fixture.now.monotonic += Duration::from_millis(2);
    }
}

#[test]
fn each_kill_is_recorded_once_although_its_eviction_is_refused() {
    let mut fixture = Fixture::new();
    fixture.workload("web", 1, &json!({"minReplicas": 1}));
    fixture.pod_with("web", "web-0", &json!({}), killed);
    let mut state = RolloutState::default();
    fixture.decide(&mut state);
    let records = |fixture: &mut Fixture, state: &mut RolloutState| {
        fixture.now.monotonic += Duration::from_mins(1);
        let plan = fixture.decide(state);
        let [action] = plan.actions.as_slice() else {
            panic!("one act: {plan:?}")
        };
        let is_recorded = state.unrecorded_oom_kill(action).is_some();
        state.begin(action, fixture.now);
        state.end(action, &ActionOutcome::Rejected, fixture.now);
        is_recorded
    };
    assert_eq!(
        [(); 3].map(|()| records(&mut fixture, &mut state)),
        [true, false, false]
    );
    fixture.pod_with("web", "web-0", &json!({}), |pod| {
        killed(pod);
        pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["finishedAt"] =
            json!("2026-01-01T12:00:00Z");
    });
    fixture.decide(&mut state);
    assert_eq!(
        [(); 2].map(|()| records(&mut fixture, &mut state)),
        [true, false],
        "there is another kill"
    );
}

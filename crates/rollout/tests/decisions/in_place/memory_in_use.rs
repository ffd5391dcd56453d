//! Memory limits that the kubelet does not lower, since the program holds more.

use rollout::SkipReason;
use serde_json::{Value, json};

use super::{all_requested, annotations, check_first, fixture, requested_as};
use crate::fixture::{Fixture, push, requests, set_requests};

const ERROR: &str = "cannot decrease memory limits: attempting to set pod memory limit (104857600) \
                     below current usage (211365888)";

/// A pod that requests `asked`, has `in_effect`, and whose memory limit the kubelet does not lower.
fn pod(fixture: &mut Fixture, name: &str, asked: [&str; 2], in_effect: [&str; 2]) {
    fixture.pod_with("web", name, &json!({}), |pod| {
        set_requests(pod, asked[0], asked[1]);
        pod["status"]["containerStatuses"] = json!([{
            "name": "app", "ready": true, "restartCount": 0, "image": "", "imageID": "",
            "resources": {"requests": requests(in_effect[0], in_effect[1])},
        }]);
        let condition = json!({
            "type": "PodResizeInProgress", "status": "True", "reason": "Error", "message": ERROR,
            "lastTransitionTime": "2026-01-01T08:00:00Z",
        });
        push(&mut pod["status"]["conditions"], condition);
    });
}

#[test]
fn a_pod_that_holds_more_memory_than_recommended_is_not_evicted() {
    for mode in ["InPlaceOrRecreate", "InPlace"] {
        let mut fixture = fixture(mode, 2);
        for name in ["web-0", "web-1"] {
            pod(&mut fixture, name, ["1", "100Mi"], ["1", "300Mi"]);
        }
        // The recommendation is one core and 100Mi.
        fixture.check_skipped(SkipReason::MemoryInUse);
    }
}

#[test]
fn another_recommendation_replaces_memory_that_is_in_use() {
    for mode in ["InPlaceOrRecreate", "InPlace"] {
        let mut fixture = fixture(mode, 1);
        pod(&mut fixture, "web-0", ["1", "50Mi"], ["1", "300Mi"]);
        let memory = requested_as(&[("requests/cpu", "1"), ("requests/memory", "100Mi")]);
        check_first(&fixture, &[memory], mode);
    }
}

#[test]
fn cpu_does_not_wait_for_memory_that_is_in_use() {
    let mut fixture = fixture("InPlaceOrRecreate", 1);
    pod(&mut fixture, "web-0", ["1", "100Mi"], ["100m", "300Mi"]);
    let plan = fixture.first_pass();
    let kept = requested_as(&[("requests/memory", "300Mi")]);
    assert_eq!(all_requested(&plan), [kept]);
    let [action] = plan.actions.as_slice() else {
        panic!("one action: {plan:?}")
    };
    let reverted_at = annotations(action).get("plimsoll.dev/reverted-at");
    assert!(reverted_at.is_some_and(Option::is_some), "{action:?}");
}

#[test]
fn a_pod_that_keeps_its_memory_gets_other_resources() {
    let mut fixture = fixture("InPlaceOrRecreate", 1);
    let kept = |pod: &mut Value, cpu: &str| {
        set_requests(pod, cpu, "300Mi");
        pod["metadata"]["annotations"] =
            json!({"plimsoll.dev/reverted-at": "2026-01-01T11:00:00Z"});
    };
    fixture.pod_with("web", "web-0", &json!({}), |pod| kept(pod, "100m"));
    let cpu = requested_as(&[("requests/cpu", "1")]);
    check_first(&fixture, &[cpu], "less CPU than recommended");
    fixture.pod_with("web", "web-0", &json!({}), |pod| kept(pod, "1"));
    fixture.check_skipped(SkipReason::RecentlyReverted);
}

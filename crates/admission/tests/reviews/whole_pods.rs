//! Pods that are sized as a whole (`podPolicy`), in place of their containers.

use serde_json::{Value, json};

use crate::fixture::{Fixture, pod};

/// The pod as it is created, of one whose container and which itself have these resources, where 500m and
/// 200 MiB are recommended.
fn created(of_container: &Value, of_pod: &Value, range: Option<&Value>) -> Value {
    let target = json!({"cpu": "500m", "memory": "200Mi"});
    let mut fixture = Fixture::new().vpa(
        "web",
        &json!({
            "spec": {"resourcePolicy": {"podPolicy": {"mode": "Auto"}}},
            "status": {"recommendation": {"podRecommendations": {"target": target}}},
        }),
    );
    if let Some(item) = range {
        fixture = fixture.limit_range(item);
    }
    let mut pod = pod(of_container);
    if !of_pod.is_null() {
        pod["spec"]["resources"] = of_pod.clone();
    }
    let patch = fixture.patch(&pod).expect("a patch");
    let patch: json_patch::Patch = serde_json::from_value(patch).expect("a JSON patch");
    json_patch::patch(&mut pod, &patch).expect("it applies");
    let own = &pod["spec"]["containers"][0]["resources"];
    assert_eq!(own, of_container, "the container stays as it is");
    pod
}

#[test]
fn a_pod_gets_its_recommendation_and_its_limits_in_proportion() {
    let of_pod = json!({"requests": {"cpu": "1", "memory": "100Mi"}, "limits": {"cpu": "2", "memory": "100Mi"}});
    let pod = created(&json!({"requests": {"cpu": "100m"}}), &of_pod, None);
    let limits = json!({"cpu": "1", "memory": "200Mi"});
    let expected = json!({"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": limits});
    assert_eq!(pod["spec"]["resources"], expected);
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations["vpaObservedContainers"], "app");
    let updates =
        "Pod resources updated by web: pod: cpu request, memory request, cpu limit, memory limit";
    assert_eq!(annotations["vpaUpdates"], updates);
}

#[test]
fn a_pod_without_resources_of_its_own_gets_requests() {
    let pod = created(&json!({}), &Value::Null, None);
    let expected = json!({"requests": {"cpu": "500m", "memory": "200Mi"}});
    assert_eq!(pod["spec"]["resources"], expected);
}

/// The API server refuses less than that.
#[test]
fn a_pod_has_at_least_what_its_containers_ask_for() {
    let of_container = json!({"requests": {"cpu": "800m"}, "limits": {"cpu": "3"}});
    let of_pod = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "4"}});
    let pod = created(&of_container, &of_pod, None);
    let expected = json!({"requests": {"cpu": "800m", "memory": "200Mi"}, "limits": {"cpu": "3"}});
    assert_eq!(pod["spec"]["resources"], expected);
}

#[test]
fn a_pod_stays_where_a_limit_range_of_pods_forbids_the_size() {
    let range = json!([{"type": "Pod", "min": {"cpu": "1"}}]);
    let of_pod = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}});
    let pod = created(&json!({}), &of_pod, Some(&range));
    assert_eq!(pod["spec"]["resources"]["requests"]["memory"], "200Mi");
    let limits = [
        &pod["spec"]["resources"]["limits"]["cpu"],
        &pod["spec"]["resources"]["requests"]["cpu"],
    ];
    assert!(limits.iter().all(|it| **it != "500m"), "{limits:?}");
}

/// The API server takes missing requests from the containers, so the limit is ten times the request.
#[test]
fn the_limit_keeps_its_proportion_to_the_requests_of_the_containers() {
    let of_container = json!({"requests": {"memory": "100Mi"}});
    let pod = created(
        &of_container,
        &json!({"limits": {"memory": "1000Mi"}}),
        None,
    );
    let expected =
        json!({"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"memory": "2000Mi"}});
    assert_eq!(pod["spec"]["resources"], expected);
}

#[test]
fn a_limit_range_of_containers_does_not_count_for_the_pod() {
    let range =
        json!([{"type": "Container", "default": {"memory": "150Mi"}, "max": {"cpu": "100m"}}]);
    let pod = created(&json!({}), &Value::Null, Some(&range));
    let expected = json!({"requests": {"cpu": "500m", "memory": "200Mi"}});
    assert_eq!(pod["spec"]["resources"], expected);
}

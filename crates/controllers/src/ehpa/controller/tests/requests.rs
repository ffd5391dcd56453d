//! Requests per change: unchanged objects are neither read nor written.

use super::*;

/// Numbers that the HPA controller writes every 15 seconds.
fn measured(percent: i32, conditions: &Value) -> Value {
    let current = json!({"type": "Resource", "resource": {
        "name": "cpu", "current": {"averageUtilization": percent, "averageValue": format!("{percent}m")},
    }});
    json!({"currentReplicas": 3, "desiredReplicas": 3, "currentMetrics": [current], "conditions": conditions})
}

#[tokio::test]
async fn a_new_measurement_in_the_status_of_the_hpa_causes_no_request() {
    let mut fixture = Fixture::new().effective("Auto");
    fixture.pass().await;
    let mut native = fixture.server.get(NATIVE, "ehpa-php-apache");
    for percent in [40, 41] {
        native["status"] = measured(percent, &json!([]));
        fixture.server.put(NATIVE, &native);
        fixture.pass().await;
    }
    assert_eq!(fixture.server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn after_the_term_nothing_is_written() {
    let mut fixture = Fixture::new().effective("Auto");
    fixture.leading.lost().cancel();
    fixture.pass().await;
    let requests = fixture.server.requests();
    assert!(!requests.is_empty(), "it is read");
    let is_read = |request: &String| request.starts_with("GET ");
    assert!(requests.iter().all(is_read), "{requests:?}");
    assert_eq!(fixture.server.events(), Vec::<String>::new());
}

#[tokio::test]
async fn the_scale_is_read_again_after_other_replicas_but_not_after_other_conditions() {
    let mut fixture = Fixture::new().effective("Auto");
    fixture.pass().await;
    let mut check = async |status: Value, expected: usize| {
        let mut native = fixture.server.get(NATIVE, "ehpa-php-apache");
        native["status"] = status;
        fixture.server.put(NATIVE, &native);
        fixture.pass().await;
        let requests = fixture.server.requests();
        assert_eq!(
            requests
                .iter()
                .filter(|request| request.ends_with("/scale"))
                .count(),
            expected,
            "{requests:?}"
        );
        assert!(
            requests.iter().any(|request| request.starts_with("PATCH")),
            "{requests:?}"
        );
    };
    let active = json!([{"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": ""}]);
    let mut grown = measured(40, &active);
    grown["currentReplicas"] = json!(4);
    check(measured(40, &json!([])), 1).await;
    check(measured(41, &active), 0).await;
    check(grown, 1).await;
}

#[tokio::test]
async fn the_resource_of_a_kind_is_discovered_once() {
    let mut fixture = Fixture::new();
    fixture
        .server
        .scale("apis/example.com/v1", "webs", "php-apache", 3);
    let web = json!({"name": "webs", "singularName": "web", "namespaced": true, "kind": "Web", "verbs": ["get"]});
    let list =
        json!({"kind": "APIResourceList", "groupVersion": "example.com/v1", "resources": [web]});
    fixture.server.put_at("/apis/example.com/v1", &list);
    let mut object = effective("Preview");
    object["spec"]["scaleTargetRef"] =
        json!({"apiVersion": "example.com/v1", "kind": "Web", "name": "php-apache"});
    fixture.server.put(EFFECTIVE, &object);
    fixture.pass().await;
    assert!(
        fixture
            .server
            .requests()
            .contains(&"GET /apis/example.com/v1".to_owned())
    );
    object["spec"]["maxReplicas"] = json!(11);
    fixture.server.put(EFFECTIVE, &object);
    fixture.pass().await;
    let requests = fixture.server.requests();
    assert!(
        requests
            .iter()
            .any(|request| request.ends_with("/webs/php-apache/scale")),
        "{requests:?}"
    );
    assert!(
        !requests.contains(&"GET /apis/example.com/v1".to_owned()),
        "{requests:?}"
    );
}

/// An EHPA of a workload without an answer, or without a scale.
fn troubled(name: &str) -> Value {
    let mut object = effective("Auto");
    object["metadata"]["name"] = json!(name);
    object["spec"]["scaleTargetRef"]["name"] = json!(name);
    object
}

#[tokio::test(start_paused = true)]
async fn a_pass_ends_although_an_api_hangs() {
    let mut fixture = Fixture::new();
    for number in 0..5 {
        let object = troubled(&format!("hung-{number}"));
        fixture.server.put(EFFECTIVE, &object);
    }
    for (left, seconds) in [(3, 6), (1, 6), (0, 3)] {
        let began = Instant::now();
        let next = fixture.pass_over(fixture.server.view()).await;
        assert_eq!(began.elapsed(), Duration::from_secs(seconds), "{left} left");
        let is_due = next.is_some_and(|next| next <= Instant::now());
        assert_eq!((5 - fixture.term.handled.len(), is_due), (left, left > 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_problem_that_stays_is_looked_at_less_often() {
    let mut fixture = Fixture::new();
    fixture.server.put(EFFECTIVE, &troubled("gone"));
    for seconds in [15, 30, 60, 60] {
        let next = fixture.pass_over(fixture.server.view()).await;
        let wait = next.map(|next| next.duration_since(Instant::now()));
        assert_eq!(wait, Some(Duration::from_secs(seconds)));
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }
}

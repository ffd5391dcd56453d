//! Pods whose recommended size the API server would refuse: the webhook leaves them as they are written,
//! so the updater does too, and says why.

use rollout::{ActionReason, Refusal, SkipReason};
use serde_json::{Value, json};

use super::fixture::{Fixture, boosted, only_action, reasons};

/// A Deployment of two pods with this in their specification, and this item of a limit range.
fn fixture(spec: &Value, range: Option<&Value>) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.workload("web", 2, &json!({"updateMode": "Recreate"}));
    if let Some(item) = range {
        fixture.limit_range(item);
    }
    for name in ["web-0", "web-1"] {
        fixture.pod_with("web", name, &json!({}), |pod| {
            pod["spec"] = spec.clone();
            pod["spec"]["nodeName"] = json!("n1");
        });
    }
    fixture
}

fn container(name: &str, resources: &Value) -> Value {
    json!({"name": name, "resources": resources})
}

/// Expects that neither pod is evicted, for this reason.
fn check(fixture: &mut Fixture, refusal: Refusal) {
    let plan = fixture.pass();
    assert_eq!(plan.actions, []);
    assert_eq!(reasons(&plan), [SkipReason::Refused(refusal)]);
}

#[test]
fn a_ratio_that_a_limit_range_forbids_evicts_no_pod() {
    let resources = json!({"requests": {"cpu": "2", "memory": "100Mi"}, "limits": {"cpu": "4", "memory": "200Mi"}});
    let range = json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}});
    let spec = json!({"containers": [container("app", &resources)]});
    let mut fixture = fixture(&spec, Some(&range));
    let policy = json!({"containerPolicies": [
        {"containerName": "*", "controlledResources": ["cpu"], "controlledValues": "RequestsOnly"},
    ]});
    fixture.edit_vpa("web", |object| object["spec"]["resourcePolicy"] = policy);
    check(&mut fixture, Refusal::LimitRange);
}

#[test]
fn a_size_above_that_of_the_whole_pod_evicts_no_pod() {
    let own = json!({"requests": {"cpu": "500m", "memory": "1Gi"}});
    let app = container(
        "app",
        &json!({"requests": {"cpu": "100m", "memory": "100Mi"}}),
    );
    let spec = json!({"containers": [app], "resources": own});
    check(&mut fixture(&spec, None), Refusal::PodResources);
}

/// The upper bound of `app` is scaled below its own target by that of `proxy`.
#[test]
fn bounds_that_a_limit_on_the_pod_scales_apart_evict_no_pod_with_the_target() {
    let range = json!({"type": "Pod", "max": {"cpu": "1024m"}});
    let cpu = |cpu: &str| json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    let containers = json!([
        container("app", &cpu("200m")),
        container("proxy", &cpu("100m"))
    ]);
    let mut fixture = fixture(&json!({"containers": containers}), Some(&range));
    let recommended = |name: &str, bounds: [&str; 3]| {
        let [lower, target, upper] = bounds.map(|cpu| json!({"cpu": cpu}));
        json!({"containerName": name, "lowerBound": lower, "target": target, "upperBound": upper})
    };
    fixture.edit_vpa("web", |object| {
        let list = &mut object["status"]["recommendation"]["containerRecommendations"];
        *list = json!([
            recommended("app", ["180m", "200m", "220m"]),
            recommended("proxy", ["90m", "100m", "3072m"]),
        ]);
    });
    let plan = fixture.pass();
    assert_eq!((plan.actions.len(), reasons(&plan)), (0, vec![]));
}

/// `controlledResources: [memory]`, the usual object beside an HPA on CPU.
#[test]
fn a_boost_ends_where_no_cpu_is_recommended() {
    let mut fixture = Fixture::new();
    fixture.settings.startup_boost = true;
    fixture.workload("web", 2, &json!({"updateMode": "InPlaceOrRecreate"}));
    fixture.boost("web", 0);
    fixture.edit_vpa("web", |object| {
        let recommended = json!({"containerName": "app", "target": {"memory": "100Mi"}});
        object["status"]["recommendation"]["containerRecommendations"] = json!([recommended]);
    });
    fixture.pod("web", "web-1", &json!({}));
    fixture.pod_with("web", "web-0", &json!({"cpu": "1500m"}), |pod| {
        boosted(pod, "500m", "2026-01-01T11:59:00Z");
        pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!("50Mi");
    });
    let plan = fixture.pass();
    let action = only_action(&plan);
    assert_eq!(action.reason, ActionReason::BoostExpired);
    let changes: Vec<String> = action.changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        [
            "app cpu request 1500m -> 500m",
            "app memory request 50Mi -> 100Mi"
        ]
    );
}

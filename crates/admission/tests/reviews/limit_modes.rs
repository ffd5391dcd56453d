//! Pods of VPA objects with a limit mode.

use admission::{AdmissionConfig, Gates};
use serde_json::{Value, json};

use crate::fixture::{Fixture, pod};

fn annotated(mode: &str) -> Value {
    json!({"metadata": {"annotations": {"plimsoll.dev/limit-mode": mode}}})
}

/// The pod as it is created: resources of its container and annotations.
fn created(fixture: &Fixture, resources: &Value) -> (Value, Value) {
    let mut pod = pod(resources);
    let patch = fixture.patch(&pod).expect("a patch");
    let patch: json_patch::Patch = serde_json::from_value(patch).expect("a JSON patch");
    json_patch::patch(&mut pod, &patch).expect("it applies");
    let container = pod["spec"]["containers"][0]["resources"].clone();
    (container, pod["metadata"]["annotations"].clone())
}

/// Expects the limits of a pod with requests of one core and 1 GiB and limits of two cores and 2 GiB,
/// and the annotation about them.
fn check(mode: &str, limits: &Value, text: Option<&str>) {
    let fixture = Fixture::new().vpa("web", &annotated(mode));
    let resources =
        json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}});
    let (resources, annotations) = created(&fixture, &resources);
    let expected = json!({"requests": {"cpu": "100m", "memory": "200Mi"}, "limits": limits});
    assert_eq!(resources, expected, "{mode}");
    assert_eq!(annotations["plimsoll.dev/limits"], json!(text), "{mode}");
}

#[test]
fn a_pod_is_created_with_the_limits_of_the_mode() {
    let proportional = json!({"cpu": "200m", "memory": "400Mi"});
    check("proportional", &proportional, None);
    check("twice", &proportional, None);
    check(
        "equal",
        &json!({"cpu": "100m", "memory": "200Mi"}),
        Some("app: cpu=100m, memory=200Mi"),
    );
    check("none", &json!({}), Some("app: cpu=none, memory=none"));
    check(
        "cpu=none,memory=request-plus:50Mi",
        &json!({"memory": "250Mi"}),
        Some("app: cpu=none, memory=250Mi"),
    );
    check(
        "request-plus:20%",
        &json!({"cpu": "120m", "memory": "240Mi"}),
        Some("app: cpu=120m, memory=240Mi"),
    );
}

#[test]
fn a_pod_without_limits_gets_those_of_the_mode() {
    let requests = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
    let fixture = Fixture::new().vpa("web", &annotated("memory=equal"));
    let (resources, _) = created(&fixture, &requests);
    assert_eq!(resources["limits"], json!({"memory": "200Mi"}));
    let fixture = Fixture::new().vpa("web", &annotated("none"));
    let (resources, annotations) = created(&fixture, &requests);
    assert_eq!(resources["limits"], json!(null));
    assert_eq!(annotations["plimsoll.dev/limits"], json!(null));
}

#[test]
fn a_limit_that_a_limit_range_requires_stays() {
    let item = json!([{"type": "Container", "max": {"cpu": "4"}, "default": {"memory": "1Gi"}}]);
    let fixture = Fixture::new()
        .vpa("web", &annotated("none"))
        .limit_range(&item);
    let resources =
        json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}});
    let (resources, annotations) = created(&fixture, &resources);
    assert_eq!(
        resources["limits"],
        json!({"cpu": "200m", "memory": "400Mi"})
    );
    assert_eq!(
        annotations["vpaUpdates"],
        "Pod resources updated by web: container 0: \
         cpu: limit kept in proportion since a LimitRange requires one, \
         memory: limit kept in proportion since a LimitRange requires one, \
         cpu request, memory request, cpu limit, memory limit"
    );
}

#[test]
fn a_startup_boost_keeps_the_mode() {
    for (mode, limit) in [
        ("proportional", json!("400m")),
        ("equal", json!("200m")),
        ("none", json!(null)),
        ("request-plus:20%", json!("240m")),
    ] {
        let mut vpa = annotated(mode);
        vpa["spec"] = json!({"startupBoost": {"cpu": {"type": "Factor", "factor": 2}}});
        let mut fixture = Fixture::new().vpa("web", &vpa);
        fixture.config = AdmissionConfig {
            gates: Gates {
                cpu_startup_boost: true,
                ..Gates::default()
            },
            ..AdmissionConfig::default()
        };
        let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}});
        let (resources, _) = created(&fixture, &resources);
        assert_eq!(resources["requests"]["cpu"], "200m", "{mode}");
        assert_eq!(resources["limits"]["cpu"], limit, "{mode}");
    }
}

//! Scale points that are kept for VPAs.

use model::Cpu;
use serde_json::{Value, json};

use super::fixture::{
    Fixture, average, cpu, external, json_of, planned_metrics, reasons, resource,
};
use crate::ehpa::status::status;

fn vpa(extra: &Value) -> Value {
    let mut object = json!({
        "metadata": {
            "namespace": "shop", "name": "web", "annotations": {"plimsoll.dev/hpa": "KeepScalePoint"},
        },
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "php-apache"}},
    });
    for (key, value) in extra.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

/// Remembers the status, as after a write, and gives each pod this CPU request in its first
/// container.
fn later(mut fixture: Fixture, millicores: i64) -> Fixture {
    fixture.object.status = Some(status(&fixture.observed(), &[], false));
    for pod in &mut fixture.pods {
        let pod = std::sync::Arc::make_mut(pod);
        pod.containers[0].requests.cpu = Some(Cpu::from_millicores(millicores));
    }
    fixture
}

fn plain(extra: &Value) -> Fixture {
    Fixture::new(&json!({"prediction": null})).vpa(&vpa(extra))
}

fn points(fixture: &Fixture) -> Value {
    json_of(&status(&fixture.observed(), &[], false))["scalePoints"].clone()
}

#[test]
fn the_amount_is_that_of_the_requests_at_adoption_until_the_mode_ends() {
    let fixture = plain(&json!({}));
    // Half of 200m and 51m.
    let by_value = json!([resource("cpu", &average("125m"))]);
    assert_eq!(planned_metrics(&fixture.plan()), by_value);
    let expected = json!([{"resource": "cpu", "averageRequest": "251m", "averageValue": "125m"}]);
    assert_eq!(points(&fixture), expected);

    let mut fixture = later(fixture, 2000);
    assert_eq!(planned_metrics(&fixture.plan()), by_value);
    assert_eq!(points(&fixture), expected);
    // Another utilization is a share of the same request.
    fixture.object.spec.metrics = serde_json::from_value(json!([cpu(80)])).expect("metrics");
    let by_value = json!([resource("cpu", &average("200m"))]);
    assert_eq!(planned_metrics(&fixture.plan()), by_value);

    let mut fixture = later(fixture, 2000);
    fixture.vpas.clear();
    assert_eq!(planned_metrics(&fixture.plan()), json!([cpu(80)]));
    assert_eq!(points(&fixture), Value::Null);
}

#[test]
fn only_utilization_of_what_a_vpa_sizes_gets_an_amount() {
    let policies = |policies: &Value| json!({"resourcePolicy": {"containerPolicies": policies}});
    let memory_only = policies(&json!([{"containerName": "*", "controlledResources": ["memory"]}]));
    let app_off = policies(&json!([{"containerName": "app", "mode": "Off"}]));
    let of_app = json!({"type": "ContainerResource", "containerResource": {
        "name": "cpu", "container": "app", "target": {"type": "Utilization", "averageUtilization": 50},
    }});
    let mut of_app_by_value = of_app.clone();
    of_app_by_value["containerResource"]["target"] = average("100m");
    let by_value = resource("cpu", &average("125m"));
    for (extra, metric, expected) in [
        (json!({}), cpu(50), by_value.clone()),
        (json!({}), of_app.clone(), of_app_by_value),
        (memory_only.clone(), cpu(50), cpu(50)),
        (app_off.clone(), cpu(50), by_value.clone()),
        (app_off, of_app.clone(), of_app),
        (
            memory_only,
            resource("cpu", &average("1")),
            resource("cpu", &average("1")),
        ),
    ] {
        let fixture = Fixture::new(&json!({"prediction": null, "metrics": [metric]}));
        let plan = fixture.vpa(&vpa(&extra)).plan();
        assert_eq!(
            planned_metrics(&plan),
            json!([expected]),
            "{extra} {metric}"
        );
        assert_eq!(reasons(&plan), [""; 0]);
    }
}

#[test]
fn a_prediction_is_divided_by_the_same_amount() {
    let fixture = Fixture::example()
        .vpa(&vpa(&json!({})))
        .predicted(&[("resource.cpu", true, 1)]);
    let fixture = later(fixture, 2000);
    let expected = json!([
        resource("cpu", &average("125m")),
        external("crane_autoscaling_prediction", "resource.cpu", "125m"),
    ]);
    assert_eq!(planned_metrics(&fixture.plan()), expected);
}

#[test]
fn an_amount_that_is_unknown_is_reported_and_the_hpa_scales_by_utilization() {
    let mut fixture = plain(&json!({}));
    fixture.pods.clear();
    let plan = fixture.plan();
    assert_eq!(planned_metrics(&plan), json!([cpu(50)]));
    assert_eq!(reasons(&plan), ["ScalePointUnknown"]);
    // A known one outlives the pods.
    let mut fixture = later(plain(&json!({})), 2000);
    fixture.pods.clear();
    let plan = fixture.plan();
    assert_eq!(
        planned_metrics(&plan),
        json!([resource("cpu", &average("125m"))])
    );
    assert_eq!(reasons(&plan), [""; 0]);
}

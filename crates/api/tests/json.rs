//! JSON of the objects, compared with examples that have every field.

use std::collections::BTreeSet;

use api::{
    ParseError,
    checkpoint::{self, HistogramCheckpoint, VerticalPodAutoscalerCheckpointStatus},
    condition, crd, ehpa,
    patch::put_status,
    prediction, substitute,
    vpa::{self, VerticalPodAutoscalerStatus},
};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use model::{ContainerRecommendation, Recommendation};
use serde::Serialize;
use serde_json::{Value, json};

fn vpa() -> Value {
    serde_json::from_str(include_str!("objects/vpa.json")).expect("the example is JSON")
}

fn checkpoint() -> Value {
    serde_json::from_str(include_str!("objects/checkpoint.json")).expect("the example is JSON")
}

fn crane(name: &str) -> Value {
    let text = match name {
        "ehpa" => include_str!("objects/ehpa.json"),
        "substitute" => include_str!("objects/substitute.json"),
        "tsp" => include_str!("objects/tsp.json"),
        other => panic!("no example {other}"),
    };
    serde_json::from_str(text).expect("the example is JSON")
}

#[test]
fn the_examples_of_cranes_objects_hold_every_field_and_come_back_as_they_were_read() {
    let missing = |definition: CustomResourceDefinition, example: &Value| {
        let mut wrong = BTreeSet::new();
        compare(root_schema(&definition), &[example], "", &mut wrong);
        wrong
    };
    // A metric has the targets and the selector of its kind, a prediction one estimator of each
    // kind.
    let example = crane("ehpa");
    let elsewhere = ["/target/", "/selector/match"];
    let wrong = missing(crd::effective_horizontal_pod_autoscaler(), &example);
    let wrong: Vec<_> = wrong
        .iter()
        .filter(|path| !elsewhere.iter().any(|part| path.contains(part)))
        .collect();
    // An omitted object has no selector either.
    assert_eq!(
        wrong,
        ["/spec/metrics/[]/object/metric/selector is not in the example"]
    );
    assert_unchanged(ehpa::parse, &example);

    let example = crane("substitute");
    assert_eq!(missing(crd::substitute(), &example), BTreeSet::new());
    assert_unchanged(substitute::parse, &example);

    let example = crane("tsp");
    let wrong = missing(crd::time_series_prediction(), &example);
    let algorithm = |path: &&String| !path.contains("/algorithm/");
    assert_eq!(wrong.iter().find(algorithm), None);
    assert_unchanged(prediction::parse, &example);
}

#[test]
fn absent_fields_of_an_ehpa_have_cranes_defaults_and_numbers_need_no_quotes() {
    let object = json!({
        "apiVersion": "autoscaling.crane.io/v1alpha1", "kind": "EffectiveHorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3,
            "metrics": [{"type": "Pods", "pods": {
                "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": 10},
            }}],
            "crons": [{"start": "0 9 * * *", "end": "0 18 * * *"}],
        },
    });
    let spec = ehpa::parse(object).expect("it parses").spec;
    assert_eq!(spec.effective_min_replicas(), 1);
    assert_eq!(spec.effective_strategy(), ehpa::ScaleStrategy::Auto);
    assert_eq!(spec.crons[0].target_replicas, 0);
    let target = &spec.metrics[0].pods.as_ref().expect("a Pods metric").target;
    assert_eq!(
        target.average_value,
        Some("10".parse().expect("a quantity"))
    );
}

#[test]
fn a_conditions_time_moves_only_with_its_status() {
    let mut conditions = Vec::new();
    let at = |minute: i64| Timestamp::from_second(60 * minute).expect("a time");
    for (holds, reason, now, expected) in [
        (false, "FailedGetScale", 0, 0),
        (false, "ScalingDisabled", 1, 0),
        (true, "Fine", 2, 2),
    ] {
        condition::set(&mut conditions, "Ready", holds.into(), reason, "", at(now));
        let [found] = &conditions[..] else {
            panic!("one condition: {conditions:?}")
        };
        assert_eq!(found.reason, reason);
        assert_eq!(found.last_transition_time.0, at(expected), "{reason}");
    }
}

#[test]
fn the_examples_hold_every_field_of_the_schemas() {
    // One boost has a factor or a quantity, not both.
    let impossible = "/spec/startupBoost/cpu/quantity is not in the example".to_owned();
    for (definition, example, expected) in [
        (crd::vertical_pod_autoscaler(), vpa(), [impossible].into()),
        (
            crd::vertical_pod_autoscaler_checkpoint(),
            checkpoint(),
            BTreeSet::new(),
        ),
    ] {
        let mut wrong = BTreeSet::new();
        compare(root_schema(&definition), &[&example], "", &mut wrong);
        assert_eq!(wrong, expected);
    }
}

/// Quantities in the examples are canonical: others are rewritten in canonical form.
#[test]
fn objects_come_back_as_they_were_read() {
    assert_unchanged(vpa::parse, &vpa());
    assert_unchanged(checkpoint::parse, &checkpoint());
    let minimal = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"targetRef": {"kind": "Deployment", "name": "web"}},
    });
    assert_unchanged(vpa::parse, &minimal);
}

#[test]
fn a_status_is_written_as_go_writes_it() {
    let container = |name: &str| ContainerRecommendation {
        container_name: name.into(),
        ..Default::default()
    };
    for (status, expected) in [
        (
            VerticalPodAutoscalerStatus::default(),
            json!({"observedGeneration": 0}),
        ),
        (
            VerticalPodAutoscalerStatus {
                recommendation: Some(Recommendation::default()),
                observed_generation: 7,
                ..Default::default()
            },
            json!({"recommendation": {}, "observedGeneration": 7}),
        ),
        (
            VerticalPodAutoscalerStatus {
                recommendation: Some(Recommendation {
                    containers: vec![container("app")],
                }),
                ..Default::default()
            },
            json!({
                "recommendation": {"containerRecommendations": [{"containerName": "app", "target": {}}]},
                "observedGeneration": 0,
            }),
        ),
    ] {
        assert_eq!(json_of(&status), expected);
    }
}

#[test]
fn a_checkpoint_writes_unknown_times_as_null_and_leaves_out_what_is_empty() {
    let empty = json!({"referenceTimestamp": null});
    assert_eq!(
        json_of(&VerticalPodAutoscalerCheckpointStatus::default()),
        json!({
            "lastUpdateTime": null, "firstSampleStart": null, "lastSampleStart": null,
            "cpuHistogram": empty, "memoryHistogram": empty,
        })
    );
    let read: VerticalPodAutoscalerCheckpointStatus =
        serde_json::from_value(json!({})).expect("all may be absent");
    assert_eq!(read, VerticalPodAutoscalerCheckpointStatus::default());
}

#[test]
fn times_are_written_in_whole_seconds() {
    let time = "2026-01-02T03:04:05.678Z".parse().expect("a time");
    let histogram = HistogramCheckpoint {
        reference_timestamp: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time)),
        ..Default::default()
    };
    assert_eq!(
        json_of(&histogram),
        json!({"referenceTimestamp": "2026-01-02T03:04:05Z"})
    );
}

#[test]
fn statuses_are_patched_whole() {
    let patch = put_status(&VerticalPodAutoscalerStatus::default()).expect("a status is JSON");
    assert_eq!(
        json_of(&patch),
        json!([{"op": "add", "path": "/status", "value": {"observedGeneration": 0}}])
    );

    let object = checkpoint::parse(checkpoint()).expect("the example parses");
    let patch = checkpoint::status_patch(&object.status.expect("the example has a status"))
        .expect("a status is JSON");
    assert_eq!(
        json_of(&patch),
        json!([{"op": "replace", "path": "/status", "value": checkpoint()["status"]}])
    );
}

#[test]
fn statuses_are_equal_when_they_mean_the_same() {
    let empty = json!({"observedGeneration": 0, "conditions": []});
    let no_containers = json!({"recommendation": {"containerRecommendations": []}});
    let no_recommendation = json!({"recommendation": {}});
    let cpu = |amount: Value| target(&json!({"cpu": amount}));
    let noon = no_pods_since("2026-01-01T12:00:00Z");
    let in_berlin = no_pods_since("2026-01-01T13:00:00+01:00");
    let later = no_pods_since("2026-01-01T12:00:01Z");
    for (left, right, equal) in [
        (json!({}), empty, true),
        (json!({}), no_recommendation.clone(), false),
        (no_recommendation, no_containers, true),
        (cpu("1".into()), cpu("1000m".into()), true),
        (cpu(1.into()), cpu("1".into()), true),
        (cpu("1".into()), cpu("1001m".into()), false),
        (cpu("0".into()), target(&json!({})), false),
        (noon.clone(), in_berlin, true),
        (noon, later, false),
    ] {
        let [a, b] = [&left, &right].map(|status| {
            serde_json::from_value::<VerticalPodAutoscalerStatus>(status.clone())
                .expect("a status parses")
        });
        assert_eq!(a == b, equal, "{left} and {right}");
    }
}

#[test]
fn an_object_that_does_not_parse_is_named_with_its_field() {
    let container = "spec.resourcePolicy.containerPolicies[0]";
    let min_cpu = format!("{container}.minAllowed");
    let recommended = "status.recommendation.containerRecommendations[0].target";
    for (within, value, expected) in [
        ("/cpu", json!("1e1.5"), min_cpu.as_str()),
        ("", json!("1.5x"), &format!("{container}.oomBumpUpRatio")),
        ("", json!("Sometimes"), "spec.updatePolicy.updateMode"),
        ("", json!(1.5), "spec.updatePolicy.minReplicas"),
        ("", json!({"kind": "Deployment"}), "spec.targetRef"),
        ("", json!(null), "spec"),
        ("", json!({"cpu": "much"}), recommended),
    ] {
        let mut object = vpa();
        let pointer = format!(
            "/{}{within}",
            expected.replace(['.', '['], "/").replace(']', "")
        );
        *object
            .pointer_mut(&pointer)
            .expect("the example has the field") = value;
        let error = vpa::parse(object).expect_err("the value is wrong");
        assert!(error.field.starts_with(expected), "{error}");
        assert!(
            error
                .to_string()
                .starts_with(&format!("VerticalPodAutoscaler shop/web: {expected}")),
            "{error}"
        );
    }
    let mut object = checkpoint();
    object["status"]["cpuHistogram"]["bucketWeights"] = json!({"-1": 3});
    let error = checkpoint::parse(object).expect_err("buckets have no negative numbers");
    assert!(
        error.to_string().starts_with(
            "VerticalPodAutoscalerCheckpoint default/hamster-vpa-hamster: status.cpuHistogram.bucketWeights"
        )
    );
}

#[test]
fn an_empty_update_mode_is_no_update_mode() {
    let mut object = vpa();
    object["spec"]["updatePolicy"]["updateMode"] = json!("");
    let policy = vpa::parse(object)
        .expect("it parses")
        .spec
        .update_policy
        .expect("the example has a policy");
    assert_eq!(policy.update_mode, None);
}

fn json_of(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("objects are JSON")
}

/// Checks that an object is the same after it was parsed and written.
fn assert_unchanged<K: Serialize>(parse: fn(Value) -> Result<K, ParseError>, object: &Value) {
    let parsed = parse(object.clone()).expect("the object parses");
    assert_eq!(json_of(&parsed), *object);
}

fn target(target: &Value) -> Value {
    json!({"recommendation": {"containerRecommendations": [{"containerName": "app", "target": target}]}})
}

fn no_pods_since(time: &str) -> Value {
    json!({"conditions": [{"type": "NoPodsMatched", "status": "True", "lastTransitionTime": time}]})
}

fn root_schema(definition: &CustomResourceDefinition) -> &JSONSchemaProps {
    let schema = definition.spec.versions[0]
        .schema
        .as_ref()
        .and_then(|schema| schema.open_api_v3_schema.as_ref());
    schema.expect("v1 has a schema")
}

/// Collects the paths of schema fields that no value has, and of fields of the values that the
/// schema does not have.
fn compare(schema: &JSONSchemaProps, values: &[&Value], path: &str, wrong: &mut BTreeSet<String>) {
    if path == "/metadata" || schema.properties.is_none() && schema.items.is_none() {
        return;
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        let values: Vec<&Value> = values
            .iter()
            .filter_map(|value| value.as_array())
            .flatten()
            .collect();
        return compare(items, &values, &format!("{path}/[]"), wrong);
    }
    let properties = schema.properties.clone().unwrap_or_default();
    for name in values
        .iter()
        .filter_map(|value| value.as_object())
        .flat_map(|object| object.keys())
    {
        if !properties.contains_key(name) {
            wrong.insert(format!("{path}/{name} is not in the schema"));
        }
    }
    for (name, property) in properties {
        let values: Vec<&Value> = values.iter().filter_map(|value| value.get(&name)).collect();
        if values.is_empty() {
            wrong.insert(format!("{path}/{name} is not in the example"));
        }
        compare(&property, &values, &format!("{path}/{name}"), wrong);
    }
}

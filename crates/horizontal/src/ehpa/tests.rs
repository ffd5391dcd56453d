//! Plans for example objects, compared with golden JSON.

mod crons;
pub(crate) mod fixture;
mod history_queries;
mod hpa_choice;
mod predictable_metrics;
mod predicted_metrics;
mod prediction_summary;
mod preview;
mod scale_points;

use serde_json::{Value, json};

use super::Problem;
use super::plan::Desired;
use super::status::{ready_contains, status};
use fixture::{Fixture, average, by_day, created_hpa, json_of, planned_hpa, reasons};
use model::is_label_value;

#[test]
fn the_documented_example_makes_an_hpa_and_a_prediction() {
    let plan = Fixture::example().plan();
    let golden: Value =
        serde_json::from_str(include_str!("tests/documented.json")).expect("golden JSON");
    assert_eq!(planned_hpa(&plan), golden["autoscaler"]);
    let Desired::Apply(prediction) = &plan.prediction else {
        panic!("{:?}", plan.prediction)
    };
    assert_eq!(json_of(&**prediction), golden["prediction"]);
    assert_eq!((plan.substitute, plan.scale_to), (Desired::Keep, None));
    assert_eq!((plan.problems, plan.adopts), (vec![], false));
}

#[test]
fn a_workload_without_replicas_or_scale_is_left_alone() {
    let plan = Fixture::example().replicas(0).plan();
    assert_eq!(
        (plan.hpa.is_some(), reasons(&plan)),
        (false, vec!["ScalingDisabled"])
    );
    let plan = Fixture::new(&json!({"minReplicas": 0})).replicas(0).plan();
    assert_eq!(
        (plan.hpa.is_some(), reasons(&plan)),
        (true, vec!["NotScaledToZero"])
    );
    let mut fixture = Fixture::example();
    fixture.target = Err("deployments.apps \"php-apache\" not found".to_owned());
    let plan = fixture.plan();
    assert_eq!(reasons(&plan), ["FailedGetScale"]);
    assert_eq!(plan.prediction, Desired::Keep);
}

#[test]
fn unwanted_objects_are_deleted_and_named_labels_copied() {
    let mut fixture = Fixture::new(&json!({"prediction": null})).predicted(&[]);
    assert_eq!(fixture.plan().prediction, Desired::Delete);
    fixture.prediction = None;
    assert_eq!(fixture.plan().prediction, Desired::Keep);
    fixture.propagation.labels = vec!["team".to_owned()];
    fixture.propagation.annotation_prefixes = vec!["example.com/".to_owned()];
    let plan = fixture
        .annotated("example.com/owner", "me")
        .annotated("example.org/owner", "you")
        .plan();
    let metadata = &planned_hpa(&plan)["metadata"];
    let labels = ["team", "other"].map(|name| metadata["labels"][name].as_str());
    assert_eq!(labels, [Some("a"), None]);
    assert_eq!(metadata["annotations"], json!({"example.com/owner": "me"}));
}

#[test]
fn the_status_repeats_those_of_the_hpa_and_the_prediction() {
    let mut own = created_hpa();
    own["status"] = json!({
        "currentReplicas": 3, "desiredReplicas": 6, "lastScaleTime": "2026-01-01T00:00:05Z",
        "conditions": [
            {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "fine"},
            {"type": "Unheard", "status": "True", "reason": "Of", "message": ""},
        ],
    });
    let fixture = Fixture::example()
        .hpa(own)
        .predicted(&[("resource.cpu", true, 1)]);
    let found = json_of(&status(&fixture.observed(), &[], false));
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:10Z",
        })
    };
    let expected = json!({
        "expectReplicas": 6, "currentReplicas": 3, "lastScaleTime": "2026-01-01T00:00:05Z",
        "prediction": {"method": "peak", "windowSeconds": 600},
        "conditions": [
            condition("Ready", "EffectiveHorizontalPodAutoscalerReady", "Effective HPA is ready"),
            condition("PredictionReady", "PredictSucceed", ""),
            condition("ScalingActive", "ValidMetricFound", "fine"),
        ],
    });
    assert_eq!(found, expected);
    // A condition is removed with the object that it is about.
    let mut later = Fixture::new(&json!({"prediction": null}));
    later.object.status = Some(serde_json::from_value(found).expect("a status"));
    let after = json_of(&status(&later.observed(), &[], true));
    assert_eq!(after["conditions"].as_array().map(Vec::len), Some(1));
    assert_eq!(after["conditions"][0]["type"], "Ready");
    assert_eq!(after["lastScaleTime"], "2026-01-01T00:00:10Z");
}

#[test]
fn too_long_label_values_are_left_out() {
    for length in [58, 59, 63, 64, 200] {
        let mut fixture = Fixture::new(&json!({"scaleStrategy": "Preview"}));
        fixture.object.metadata.name = Some("a".repeat(length));
        let plan = fixture.plan();
        let (Desired::Apply(prediction), Desired::Apply(substitute)) =
            (&plan.prediction, &plan.substitute)
        else {
            panic!("{plan:?}")
        };
        for object in [
            planned_hpa(&plan),
            json_of(&**prediction),
            json_of(&**substitute),
        ] {
            let labels = object["metadata"]["labels"].as_object().expect("labels");
            let values: Vec<_> = labels.values().filter_map(Value::as_str).collect();
            assert!(
                values.iter().all(|value| is_label_value(value)),
                "{length}: {values:?}"
            );
            for (label, longest) in [("name", 58), ("part-of", 63)] {
                let is_there = labels.contains_key(&format!("app.kubernetes.io/{label}"));
                assert_eq!(is_there, length <= longest, "{length}");
            }
            assert_eq!(
                labels["app.kubernetes.io/managed-by"],
                "effective-hpa-controller"
            );
        }
    }
}

#[test]
fn a_workload_goes_to_zero_only_by_what_is_measured_without_it() {
    let check = |fixture: Fixture, least: i32, problems: &[&str]| {
        let plan = fixture.plan();
        assert_eq!(planned_hpa(&plan)["spec"]["minReplicas"], json!(least));
        assert_eq!(reasons(&plan), problems);
    };
    let target = average("1");
    let external =
        json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": target}});
    let object = json!({"type": "Object", "object": {
        "metric": {"name": "queue"}, "target": target, "describedObject": {"kind": "Service", "name": "web"},
    }});
    let from_zero = |metrics: &Value| Fixture::new(&json!({"minReplicas": 0, "metrics": metrics}));
    check(
        Fixture::new(&json!({"minReplicas": 0})),
        1,
        &["NotScaledToZero"],
    );
    let predicted = [("resource.cpu", true, 1)];
    check(
        Fixture::new(&json!({"minReplicas": 0})).predicted(&predicted),
        0,
        &[],
    );
    check(from_zero(&json!([external])), 0, &[]);
    check(from_zero(&json!([object])), 0, &[]);
    let cron = json!({"minReplicas": 0, "metrics": [], "crons": [by_day()]});
    check(Fixture::new(&cron), 0, &[]);
    check(Fixture::new(&json!({"minReplicas": 2})), 2, &[]);
}

#[test]
fn the_message_of_each_condition_is_cut() {
    let fixture = Fixture::example();
    let problems = [Problem::new("FailedReconcileHPA", "m".repeat(40_000))];
    let cut = status(&fixture.observed(), &problems, false);
    let lengths = cut
        .conditions
        .iter()
        .map(|condition| condition.message.len());
    assert_eq!(lengths.max(), Some(4000));
    for message in ["m".repeat(1000).as_str(), "what was cut off"] {
        assert!(ready_contains(Some(&cut), message), "{message}");
    }
}

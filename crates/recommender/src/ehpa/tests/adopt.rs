//! Which autoscaler of the same workload is taken over, and which of several objects gets one.

use serde_json::json;

use super::stage::{Stage, autoscaler, native, owner, reasons};
use crate::ehpa::adopt::{elder_of, eldest};
use crate::ehpa::plan::Wish;

#[test]
fn an_autoscaler_of_the_same_workload_is_taken_over_only_if_nobody_else_minds() {
    let controlled = json!({"ownerReferences": owner("u2")});
    let mine = native("mine", &json!({}));
    let plan = Stage::new(&json!({})).autoscaler(mine.clone()).plan();
    assert_eq!((autoscaler(&plan)["metadata"]["name"].as_str(), plan.adopts), (Some("mine"), true));
    for (strategy, autoscalers) in [
        ("Preview", vec![mine.clone()]),
        ("Auto", vec![mine.clone(), native("other", &json!({}))]),
        ("Auto", vec![native("theirs", &controlled)]),
    ] {
        let stage = Stage::new(&json!({"scaleStrategy": strategy}));
        let plan = autoscalers.into_iter().fold(stage, Stage::autoscaler).plan();
        let seen = (plan.autoscaler.is_none(), plan.substitute.clone(), reasons(&plan));
        assert_eq!(seen, (true, Wish::Leave, vec!["FailedReconcileHPA"]), "{strategy}");
    }
    // Once it is its own it is found under whatever name, next to any other.
    let own = native("mine", &json!({"ownerReferences": owner("u1")}));
    let plan = Stage::new(&json!({})).autoscaler(native("later", &json!({}))).autoscaler(own).plan();
    assert_eq!((autoscaler(&plan)["metadata"]["name"].as_str(), plan.adopts), (Some("mine"), false));
    // The name may be taken by an autoscaler of another workload.
    let mut taken = native("ehpa-php-apache", &json!({}));
    taken["spec"]["scaleTargetRef"]["name"] = json!("else");
    let plan = Stage::new(&json!({})).autoscaler(taken).plan();
    assert_eq!((plan.autoscaler.is_none(), reasons(&plan)), (true, vec!["FailedReconcileHPA"]));
}

#[test]
fn of_objects_for_the_same_workload_only_the_oldest_gets_an_autoscaler() {
    let object = |name: &str, created: &str, api_version: &str| {
        let mut object = Stage::new(&json!({})).object;
        object.metadata.name = Some(name.to_owned());
        object.metadata.creation_timestamp = serde_json::from_value(json!(created)).expect("a time");
        api_version.clone_into(&mut object.spec.scale_target_ref.api_version);
        object
    };
    let objects = [
        object("b", "2026-01-01T00:00:00Z", "apps/v1"),
        object("a", "2026-01-01T00:00:00Z", "apps/v1beta2"),
        object("aa", "2026-01-01T00:00:01Z", "apps/v1"),
        object("c", "2026-01-02T00:00:00Z", "other/v1"),
    ];
    let eldest = eldest(objects.iter());
    let elders = objects.each_ref().map(|object| elder_of(object, &eldest));
    assert_eq!(elders, [Some("a"), None, Some("a"), None]);

    let mut stage = Stage::new(&json!({}));
    stage.elder = Some("a");
    let plan = stage.plan();
    assert_eq!((plan.autoscaler.as_ref(), reasons(&plan)), (None, vec!["FailedReconcileHPA"]));
    let own = native("ehpa-php-apache", &json!({"ownerReferences": owner("u1")}));
    assert!(stage.autoscaler(own).plan().autoscaler.is_some(), "what it has it keeps");
}

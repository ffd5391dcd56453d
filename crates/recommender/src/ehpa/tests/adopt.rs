//! Which autoscaler of the same workload is taken over, and which of several objects gets one.

use serde_json::json;

use super::stage::{Stage, autoscaler, native, owner, reasons};
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
fn of_objects_for_the_same_workload_only_the_oldest_has_anything() {
    let by_hand = json!({"scaleStrategy": "Preview", "specificReplicas": 100});
    let check = |stage: Stage| {
        let plan = stage.plan();
        assert_eq!((plan.autoscaler.as_ref(), reasons(&plan)), (None, vec!["FailedReconcileHPA"]));
        assert_eq!((plan.scale_to, plan.substitute), (None, Wish::Leave));
        plan.prediction
    };
    let younger = || Stage { elder: Some("a"), ..Stage::new(&by_hand) };
    assert_eq!(check(younger()), Wish::Leave);
    assert_eq!(check(younger().predicted(&[])), Wish::Remove);
    // The oldest may have been turned to the workload of another, which keeps what it has.
    let theirs = native("theirs", &json!({"ownerReferences": owner("u2")}));
    assert_eq!(check(Stage::new(&by_hand).autoscaler(theirs).predicted(&[])), Wish::Remove);
    let own = native("ehpa-php-apache", &json!({"ownerReferences": owner("u1")}));
    let plan = younger().autoscaler(own).plan();
    assert!(matches!(plan.prediction, Wish::Have(_)), "{:?}", plan.prediction);
    assert_eq!((plan.autoscaler.is_some(), reasons(&plan)), (true, vec!["OlderAutoscaler"]));

    // What is predicted for a preview beside somebody's own autoscaler is nobody's answer.
    let plan = Stage::new(&by_hand).autoscaler(native("mine", &json!({}))).plan();
    assert_eq!((plan.autoscaler.is_none(), plan.scale_to), (true, Some(100)));
    assert!(matches!(plan.prediction, Wish::Have(_)), "{:?}", plan.prediction);
}

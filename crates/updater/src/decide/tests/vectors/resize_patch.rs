//! The patches of resizes.

use json_patch::{Patch, PatchOperation};
use model::Quantity;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::super::{resize_patch, size};
use super::{at, autoscaler, limits, pod, recommendation, running};

#[derive(Deserialize)]
struct Case {
    vpa: Value,
    pod: Value,
    limit_ranges: Option<Vec<Value>>,
    expect: Expected,
}

#[derive(Deserialize)]
struct Expected {
    #[serde(default)]
    panic: bool,
    resize: Option<Value>,
    annotation: Option<Value>,
    unboost: Option<Value>,
}

/// Upstream writes a null into what takes something away.
fn written(operations: Vec<PatchOperation>) -> Value {
    let mut list = serde_json::to_value(Patch(operations)).expect("a patch");
    for operation in list.as_array_mut().expect("a list") {
        if operation["op"] == json!("remove") {
            operation["value"] = Value::Null;
        }
    }
    list
}

fn listed(expected: Option<Value>) -> Value {
    expected.filter(|value| !value.is_null()).unwrap_or(json!([]))
}

#[test]
fn vectors_resize_patch() {
    let now = at("2030-01-01T00:00:00Z".parse().expect("a time"));
    for (index, case) in recordings::load::<Case>("vpa/resize_patch").into_iter().enumerate() {
        let autoscaler = autoscaler(case.vpa);
        let (pod, limits) = (pod(case.pod), limits(case.limit_ranges));
        let (running, spec) = (running(&pod), &autoscaler.spec);
        let recommendation = recommendation(&autoscaler);
        let sizes = size::sizes(recommendation.as_ref(), running, spec, &limits);
        let wanted = resize_patch::wanted(running, spec, sizes, now);
        let resize = resize_patch::resize(running, &wanted);
        if case.expect.panic {
            // Upstream ends here; every amount of ours must be one that can be asked for.
            for operation in &resize.0 {
                let PatchOperation::Add(add) = operation else { panic!("case {index}: {operation:?}") };
                let amount = add.value.as_str().map(str::parse::<Quantity>);
                assert!(amount.is_none_or(|amount| amount.is_ok_and(|amount| !amount.is_negative())), "case {index}");
            }
            continue;
        }
        assert_eq!(written(resize.0), listed(case.expect.resize), "case {index}");
        let mut annotate = resize_patch::annotate(running, spec, now).0;
        annotate.retain(|operation| operation.path().as_str() != "/metadata/annotations");
        let unboost = annotate.split_off(1);
        assert_eq!(written(annotate), listed(case.expect.annotation), "case {index}");
        assert_eq!(written(unboost), listed(case.expect.unboost), "case {index}");
    }
}

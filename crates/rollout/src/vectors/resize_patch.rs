//! Upstream's patches of resizes.

use json_patch::PatchOperation;
use model::Quantity;
use serde::Deserialize;
use serde_json::{Value, json};
use sizing::ContainerSize;
use testing::vectors::each_case;

use super::{at, limits, pod, recommendation, running, to_size, vpa};
use crate::resize::resize_patch;

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

fn listed(expected: Option<Value>) -> Value {
    expected
        .filter(|value| !value.is_null())
        .unwrap_or(json!([]))
}

/// The change of an annotation by one operation of a JSON patch.
fn annotation(operation: &Value) -> (String, Option<String>) {
    let path = operation["path"]
        .as_str()
        .and_then(|path| path.strip_prefix("/metadata/annotations/"));
    let name = path.expect("an annotation").replace("~1", "/");
    assert_eq!(
        operation["op"] == json!("remove"),
        operation["value"].is_null(),
        "{operation}"
    );
    (name, operation["value"].as_str().map(str::to_owned))
}

#[test]
fn vectors_resize_patch() {
    let now = at("2030-01-01T00:00:00Z".parse().expect("a time"));
    each_case("vpa/resize_patch", |index, case: Case| {
        let vpa = vpa(case.vpa);
        let (pod, limits) = (pod(case.pod), limits(case.limit_ranges));
        let (running, spec) = (running(&pod), &vpa.spec);
        let recommendation = recommendation(&vpa);
        let sizes = match &recommendation {
            Some(recommendation) => {
                let pod = to_size(running, &vpa, &limits);
                pod.unchecked(&pod.written(), recommendation)
            }
            None => vec![ContainerSize::default(); running.containers.len()],
        };
        let sizes = resize_patch::desired_sizes(running, spec, sizes, now);
        let resize = resize_patch::patch(running, &sizes);
        if case.expect.panic {
            // Upstream panics here. Our amounts must be valid quantities.
            for operation in &resize.0 {
                let PatchOperation::Add(add) = operation else {
                    panic!("case {index}: {operation:?}")
                };
                let amount = add.value.as_str().map(str::parse::<Quantity>);
                assert!(
                    amount.is_none_or(|amount| amount.is_ok_and(|amount| !amount.is_negative())),
                    "case {index}"
                );
            }
            return;
        }
        assert_eq!(json!(resize), listed(case.expect.resize), "case {index}");
        let expected = [listed(case.expect.annotation), listed(case.expect.unboost)];
        let expected = expected
            .iter()
            .flat_map(|list| list.as_array().expect("a list"))
            .map(annotation)
            .collect();
        assert_eq!(
            resize_patch::annotation_changes(running, spec, now),
            expected,
            "case {index}"
        );
    });
}

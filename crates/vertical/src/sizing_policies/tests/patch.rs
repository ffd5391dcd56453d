//! The patch that makes an object as it should be.

use api::vpa::{HpaMode, VerticalPodAutoscaler};

use super::*;

fn made(policy: &Policy) -> VerticalPodAutoscaler {
    let workload = ObjectKey::new("shop", "a");
    desired::object(policy, select::workload(WellKnown::Deployment, &workload))
}

/// The object after the patch that makes it so.
fn patched(policy: &Policy, object: &Value) -> Option<Value> {
    let patch = desired::changes(&seen(object.clone()), &made(policy)).expect("JSON")?;
    let mut object = object.clone();
    json_patch::patch(&mut object, &patch).expect("it is the object that was seen");
    Some(object)
}

#[test]
fn a_patch_leads_to_what_is_wanted_and_to_no_second_one() {
    let old = policy("old");
    let mut new = policy("new");
    new.spec.sizing = Some(Sizing {
        policy: Some(SizingMethod::AutopilotWindow),
        caution: None,
        settings: map(&[("cpu-statistic", "p95")]),
    });
    new.spec.hpa = Some(HpaMode::KeepScalePoint);
    let mut object = json!(made(&old));
    object["metadata"]["uid"] = "u1".into();
    object["metadata"]["labels"]["team"] = "a".into();
    object["metadata"]["annotations"] =
        json!({"note": "kept", "plimsoll.dev/sizing-margin-fraction": "0.1"});
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"});
    object["metadata"]["ownerReferences"]
        .as_array_mut()
        .expect("owners")
        .push(reference);

    let after = patched(&new, &object).expect("there is a difference");
    let metadata = &after["metadata"];
    let uids = metadata["ownerReferences"].as_array().into_iter().flatten();
    assert_eq!(
        uids.map(|one| &one["uid"]).collect::<Vec<_>>(),
        ["c", "new"]
    );
    let labels = json!({"team": "a", "app.kubernetes.io/managed-by": "plimsoll", "plimsoll.dev/policy": "new"});
    assert_eq!(metadata["labels"], labels);
    let sizing = json!({
        "note": "kept", "plimsoll.dev/sizing-policy": "autopilot-window", "plimsoll.dev/sizing-cpu-statistic": "p95",
        "plimsoll.dev/hpa": "KeepScalePoint",
    });
    assert_eq!(metadata["annotations"], sizing);
    assert_eq!(patched(&new, &after), None);
    // The default mode has no annotation.
    new.spec.hpa = Some(HpaMode::Respect);
    let after = patched(&new, &after).expect("there is a difference");
    assert_eq!(
        after["metadata"]["annotations"]["plimsoll.dev/hpa"],
        json!(null)
    );
    new.spec.hpa = None;
    assert_eq!(patched(&new, &after), None);
}

#[test]
fn a_patch_misses_an_object_that_changed_hands_in_the_meantime() {
    let mut object = json!(made(&policy("old")));
    object["metadata"]["uid"] = "u1".into();
    let patch = desired::changes(&seen(object.clone()), &made(&policy("new"))).expect("JSON");
    let patch = patch.expect("a difference");
    let is_taken = |change: fn(&mut Value)| {
        let mut object = object.clone();
        change(&mut object["metadata"]);
        json_patch::patch(&mut object, &patch).is_ok()
    };
    assert!(is_taken(|_| ()));
    let changes: [fn(&mut Value); 4] = [
        |metadata| metadata["ownerReferences"] = json!(null),
        |metadata| metadata["ownerReferences"] = json!([]),
        |metadata| metadata["ownerReferences"][0]["uid"] = "third".into(),
        |metadata| metadata["uid"] = "u2".into(),
    ];
    assert_eq!(changes.map(is_taken), [false; 4]);
}

#[test]
fn our_method_is_the_default_and_the_caution_becomes_an_annotation() {
    let check = |sizing: Option<Sizing>, expected: Value| {
        let mut policy = policy("web");
        policy.spec.sizing = sizing;
        let annotations = made(&policy).metadata.annotations;
        assert_eq!(json!(annotations), expected);
    };
    let sizing = |policy, caution: Option<&str>| {
        Some(Sizing {
            policy,
            caution: caution.map(str::to_owned),
            ..Sizing::default()
        })
    };
    let ours = json!({"plimsoll.dev/sizing-policy": "plimsoll"});
    check(None, ours.clone());
    check(sizing(None, None), ours);
    check(
        sizing(None, Some("high")),
        json!({"plimsoll.dev/sizing-policy": "plimsoll", "plimsoll.dev/sizing-caution": "high"}),
    );
    check(
        sizing(Some(SizingMethod::Vpa), None),
        json!({"plimsoll.dev/sizing-policy": "vpa"}),
    );
}

#[test]
fn fields_of_a_policy_become_annotations_and_go_with_them() {
    let mut policy = policy("web");
    policy.spec.limit_mode = Some("memory=equal".to_owned());
    policy.spec.cap_to_schedulable = Some("nodes".to_owned());
    policy.spec.wave_query = Some("latency_seconds".to_owned());
    let mut object = json!(made(&policy));
    object["metadata"]["uid"] = "u1".into();
    let found = |object: &Value| {
        ["limit-mode", "cap-to-schedulable", "wave-query"]
            .map(|name| object["metadata"]["annotations"][format!("plimsoll.dev/{name}")].clone())
    };
    let expected = ["memory=equal", "nodes", "latency_seconds"];
    assert_eq!(found(&object), expected.map(|it| json!(it)));
    assert_eq!(patched(&policy, &object), None);
    policy.spec.limit_mode = None;
    policy.spec.cap_to_schedulable = None;
    policy.spec.wave_query = None;
    let after = patched(&policy, &object).expect("there is a difference");
    assert_eq!(found(&after), [json!(null), json!(null), json!(null)]);
}

//! The patch that makes an object as it should be.

use super::*;

/// The object after the patch that makes it so.
fn patched(policy: &Policy, object: &Value) -> Option<Value> {
    let wanted = desired::object(policy, WellKnown::Deployment, &ObjectKey::new("shop", "a"));
    let patch = desired::changes(&seen(object.clone()), &wanted).expect("JSON")?;
    let mut object = object.clone();
    json_patch::patch(&mut object, &patch).expect("it is the object that was seen");
    Some(object)
}

#[test]
fn a_patch_leads_to_what_is_wanted_and_to_no_second_one() {
    let old = policy("old");
    let mut new = policy("new");
    new.spec.sizing = Some(Sizing {
        policy: SizingMethod::AutopilotWindow,
        settings: map(&[("cpu-statistic", "p95")]),
    });
    let object = desired::object(&old, WellKnown::Deployment, &ObjectKey::new("shop", "a"));
    let mut object = serde_json::to_value(object).expect("JSON");
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
    let uids: Vec<&Value> = metadata["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| &one["uid"])
        .collect();
    assert_eq!(uids, ["c", "new"]);
    assert_eq!(
        metadata["labels"],
        json!({"team": "a", "app.kubernetes.io/managed-by": "plimsoll", "plimsoll.dev/policy": "new"})
    );
    let sizing = json!({
        "note": "kept", "plimsoll.dev/sizing-policy": "autopilot-window", "plimsoll.dev/sizing-cpu-statistic": "p95",
    });
    assert_eq!(metadata["annotations"], sizing);
    assert_eq!(patched(&new, &after), None);
}

#[test]
fn a_patch_misses_an_object_that_changed_hands_in_the_meantime() {
    let wanted = desired::object(
        &policy("new"),
        WellKnown::Deployment,
        &ObjectKey::new("shop", "a"),
    );
    let old = desired::object(
        &policy("old"),
        WellKnown::Deployment,
        &ObjectKey::new("shop", "a"),
    );
    let mut object = serde_json::to_value(old).expect("JSON");
    object["metadata"]["uid"] = "u1".into();
    let patch = desired::changes(&seen(object.clone()), &wanted)
        .expect("JSON")
        .expect("a difference");
    let is_taken = |change: fn(&mut Value)| {
        let mut object = object.clone();
        change(&mut object["metadata"]);
        json_patch::patch(&mut object, &patch).is_ok()
    };
    assert!(is_taken(|_| ()));
    assert!(!is_taken(
        |metadata| metadata["ownerReferences"] = json!(null)
    ));
    assert!(!is_taken(|metadata| metadata["ownerReferences"] = json!([])));
    assert!(!is_taken(
        |metadata| metadata["ownerReferences"][0]["uid"] = "third".into()
    ));
    assert!(!is_taken(|metadata| metadata["uid"] = "u2".into()));
}

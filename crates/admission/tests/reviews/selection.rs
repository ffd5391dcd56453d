//! Which of several autoscalers sizes a pod, told by the name in the pod's annotation.

use serde_json::{Value, json};
use view::WellKnown;

use crate::stage::{Stage, lay, pod};

/// Autoscalers by name with what they are beside an ordinary one, and the one that counts for a pod
/// of `web`.
fn check(autoscalers: &[(&str, Value)], expected: Option<&str>) {
    let stage = autoscalers
        .iter()
        .fold(Stage::new(), |stage, (name, over)| {
            stage.autoscaler(name, over)
        });
    assert_eq!(
        sizer(&stage, &pod(&json!({}))).as_deref(),
        expected,
        "{autoscalers:?}"
    );
}

fn sizer(stage: &Stage, pod: &Value) -> Option<String> {
    let patch = stage.patch(pod)?;
    let operations = patch.as_array().expect("a list");
    let updates = operations
        .iter()
        .find(|operation| operation["path"] == "/metadata/annotations/vpaUpdates")?;
    let text = updates["value"]
        .as_str()?
        .strip_prefix("Pod resources updated by ")?;
    Some(text.split(':').next()?.to_owned())
}

fn made_at(time: &str) -> Value {
    json!({"metadata": {"creationTimestamp": time}})
}

fn with(spec: &Value) -> Value {
    json!({"spec": spec})
}

#[test]
fn the_oldest_counts_then_the_first_by_name() {
    check(&[], None);
    check(
        &[
            ("b", made_at("2026-01-02T00:00:00Z")),
            ("c", made_at("2026-01-01T00:00:00Z")),
        ],
        Some("c"),
    );
    check(&[("c", json!({})), ("b", json!({}))], Some("b"));
    check(
        &[
            ("b", json!({})),
            ("c", json!({"metadata": {"creationTimestamp": null}})),
        ],
        Some("c"),
    );
}

#[test]
fn one_that_is_off_stands_in_nobodys_way() {
    let off = with(&json!({"updatePolicy": {"updateMode": "Off"}}));
    check(&[("a", off.clone()), ("b", json!({}))], Some("b"));
    check(&[("a", off)], None);
    for mode in [
        "Initial",
        "Recreate",
        "Auto",
        "InPlaceOrRecreate",
        "InPlace",
        "",
    ] {
        check(
            &[("a", with(&json!({"updatePolicy": {"updateMode": mode}})))],
            Some("a"),
        );
    }
}

#[test]
fn the_version_of_the_target_does_not_matter_its_kind_and_name_do() {
    let target = |version: &str, kind: &str, name: &str| {
        with(&json!({"targetRef": {"apiVersion": version, "kind": kind, "name": name}}))
    };
    check(&[("a", target("v1", "Deployment", "web"))], Some("a"));
    check(&[("a", target("", "Deployment", "web"))], Some("a"));
    check(&[("a", target("apps/v1", "Deployment", "webs"))], None);
    check(&[("a", target("apps/v1", "StatefulSet", "web"))], None);
    check(&[("a", target("apps/v1", "ReplicaSet", "web-abc"))], None);
}

#[test]
fn the_topmost_controller_counts() {
    let target = |kind: &str, name: &str| with(&json!({"targetRef": {"kind": kind, "name": name}}));
    let stage = Stage::new()
        .autoscaler("jobs", &target("CronJob", "nightly"))
        .autoscaler("db", &target("StatefulSet", "db"));
    for (kind, name, app, expected) in [
        ("Job", "nightly-1", "nightly", Some("jobs")),
        ("StatefulSet", "db", "db", Some("db")),
        ("StatefulSet", "db", "other", None),
        ("StatefulSet", "gone", "db", None),
        ("Job", "nightly-2", "nightly", None),
    ] {
        let mut object = pod(&json!({}));
        let owner = json!([{"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true}]);
        lay(
            &mut object,
            &json!({"metadata": {"labels": {"app": app}, "ownerReferences": owner}}),
        );
        assert_eq!(
            sizer(&stage, &object).as_deref(),
            expected,
            "{kind} {name} {app}"
        );
    }
}

#[test]
fn owners_that_own_each_other_own_no_pod() {
    let mut stage = Stage::new().autoscaler("a", &json!({}));
    stage.controller(
        WellKnown::Deployment,
        "web",
        Some(("ReplicaSet", "web-abc")),
    );
    assert_eq!(sizer(&stage, &pod(&json!({}))), None);
}

#[test]
fn those_of_other_namespaces_do_not_count() {
    let mut stage = Stage::new();
    let elsewhere = Stage::new().autoscaler("a", &json!({}));
    for autoscaler in elsewhere.view.autoscalers.iter() {
        let mut moved = view::Autoscaler::clone(autoscaler);
        moved.key.namespace = "elsewhere".to_owned();
        stage.view.autoscalers.apply(std::sync::Arc::new(moved));
    }
    assert_eq!(sizer(&stage, &pod(&json!({}))), None);
}

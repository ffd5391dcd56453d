//! Selection among several VPAs, by the name in the pod's annotation.

use admission::{Awaited, Input, review};
use serde_json::{Value, json};
use view::WellKnown;

use crate::fixture::{Fixture, merge, pod, pod_review};

/// Expects the VPA of a pod of `web`. `vpas` are names, and values merged into an ordinary
/// object.
fn check(vpas: &[(&str, Value)], expected: Option<&str>) {
    let mut fixture = Fixture::new();
    for (name, over) in vpas {
        fixture = fixture.vpa(name, over);
    }
    let found = selected_vpa(&fixture, &pod(&json!({})));
    assert_eq!(found.as_deref(), expected, "{vpas:?}");
}

fn selected_vpa(fixture: &Fixture, pod: &Value) -> Option<String> {
    let patch = fixture.patch(pod)?;
    let mut operations = patch.as_array().expect("a list").iter();
    let annotation = "/metadata/annotations/vpaUpdates";
    let updates = operations.find(|operation| operation["path"] == annotation)?;
    let text = updates["value"].as_str()?;
    let text = text.strip_prefix("Pod resources updated by ")?;
    Some(text.split(':').next()?.to_owned())
}

fn created_at(time: &str) -> Value {
    json!({"metadata": {"creationTimestamp": time}})
}

fn with_spec(spec: &Value) -> Value {
    json!({"spec": spec})
}

#[test]
fn the_oldest_is_selected_then_the_first_by_name() {
    check(&[], None);
    let [first, second] = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"].map(created_at);
    let never = json!({"metadata": {"creationTimestamp": null}});
    check(&[("b", second), ("c", first)], Some("c"));
    check(&[("c", json!({})), ("b", json!({}))], Some("b"));
    check(&[("b", json!({})), ("c", never)], Some("c"));
}

#[test]
fn mode_off_is_not_selected() {
    let mode = |mode: &str| with_spec(&json!({"updatePolicy": {"updateMode": mode}}));
    check(&[("a", mode("Off")), ("b", json!({}))], Some("b"));
    check(&[("a", mode("Off"))], None);
    for other in "Initial Recreate Auto InPlaceOrRecreate InPlace"
        .split(' ')
        .chain([""])
    {
        check(&[("a", mode(other))], Some("a"));
    }
}

#[test]
fn targets_match_by_kind_and_name_in_any_version() {
    let target = |version: &str, kind: &str, name: &str| {
        with_spec(&json!({"targetRef": {"apiVersion": version, "kind": kind, "name": name}}))
    };
    check(&[("a", target("v1", "Deployment", "web"))], Some("a"));
    check(&[("a", target("", "Deployment", "web"))], Some("a"));
    check(&[("a", target("apps/v1", "Deployment", "webs"))], None);
    check(&[("a", target("apps/v1", "StatefulSet", "web"))], None);
    check(&[("a", target("apps/v1", "ReplicaSet", "web-abc"))], None);
}

#[test]
fn the_topmost_controller_is_matched() {
    let target =
        |kind: &str, name: &str| with_spec(&json!({"targetRef": {"kind": kind, "name": name}}));
    let fixture = Fixture::new()
        .vpa("jobs", &target("CronJob", "nightly"))
        .vpa("db", &target("StatefulSet", "db"));
    for (kind, name, app, expected) in [
        ("Job", "nightly-1", "nightly", Some("jobs")),
        ("StatefulSet", "db", "db", Some("db")),
        ("StatefulSet", "db", "other", None),
        ("StatefulSet", "gone", "db", None),
        ("Job", "nightly-2", "nightly", None),
    ] {
        let mut object = pod(&json!({}));
        let owner = json!([{"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true}]);
        let metadata = json!({"labels": {"app": app}, "ownerReferences": owner});
        merge(&mut object, &json!({"metadata": metadata}));
        let found = selected_vpa(&fixture, &object);
        assert_eq!(found.as_deref(), expected, "{kind} {name} {app}");
    }
}

#[test]
fn a_controller_that_is_not_known_yet_is_named_where_there_are_vpas() {
    let awaited = |fixture: &Fixture, kind: &str, name: &str| {
        let mut object = pod(&json!({}));
        let owner = json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true}]);
        merge(
            &mut object,
            &json!({"metadata": {"ownerReferences": owner}}),
        );
        let input = Input {
            view: &fixture.view,
            feed: None,
            config: &fixture.config,
        };
        review(&input, pod_review(&object).to_string().as_bytes()).awaits
    };
    let mut fixture = Fixture::new();
    assert_eq!(awaited(&fixture, "StatefulSet", "new"), None, "no VPA");
    fixture = fixture.vpa("a", &json!({}));
    let Some(found @ Awaited::Controller(_)) = awaited(&fixture, "StatefulSet", "new") else {
        panic!("it is not awaited");
    };
    assert!(!found.is_in(&fixture.view));
    assert_eq!(awaited(&fixture, "StatefulSet", "db"), None, "it is known");
    assert_eq!(awaited(&fixture, "Shard", "new"), None, "no watched kind");
    fixture.controller(WellKnown::StatefulSet, "new", None);
    assert!(found.is_in(&fixture.view));
    assert_eq!(awaited(&fixture, "StatefulSet", "new"), None);
}

#[test]
fn cyclic_owners_select_no_vpa() {
    let mut fixture = Fixture::new().vpa("a", &json!({}));
    let replica_set = Some(("ReplicaSet", "web-abc"));
    fixture.controller(WellKnown::Deployment, "web", replica_set);
    assert_eq!(selected_vpa(&fixture, &pod(&json!({}))), None);
}

#[test]
fn vpas_of_other_namespaces_are_not_selected() {
    let mut fixture = Fixture::new();
    let elsewhere = Fixture::new().vpa("a", &json!({}));
    for vpa in elsewhere.view.vpas.iter() {
        let mut moved = view::Vpa::clone(vpa);
        moved.key.namespace = "elsewhere".to_owned();
        fixture.view.vpas.apply(std::sync::Arc::new(moved));
    }
    assert_eq!(selected_vpa(&fixture, &pod(&json!({}))), None);
}

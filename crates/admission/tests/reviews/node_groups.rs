//! Pods of a `DaemonSet` with VPA objects per group of nodes.

use std::sync::Arc;

use admission::{Awaited, Input, review};
use serde_json::{Value, json};
use view::{Node, WellKnown};

use crate::fixture::{Fixture, merge, patch_in, pod, pod_review};

const POOL: &str = "node-group.plimsoll.dev/pool";
const ZONE: &str = "example.com.node-group.plimsoll.dev/zone";

/// A `DaemonSet` `logs`, and four nodes.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.config.node_groups = true;
    fixture.controller(WellKnown::DaemonSet, "logs", None);
    for (name, labels) in [
        ("big", json!({"pool": "big", "example.com/zone": "a"})),
        ("small", json!({"pool": "small", "example.com/zone": "b"})),
        ("empty", json!({"pool": ""})),
        ("bare", json!({})),
    ] {
        let node = json!({"metadata": {"name": name, "labels": labels}});
        let node = Node::from_k8s(serde_json::from_value(node).expect("a node"));
        fixture.view.nodes.apply(Arc::new(node));
    }
    fixture
}

/// Adds a VPA object of the `DaemonSet`. `over` is merged into it.
fn vpa(fixture: Fixture, name: &str, group: Option<&str>, over: &Value) -> Fixture {
    let mut object = json!({
        "metadata": {"annotations": group.map(|group| json!({"plimsoll.dev/node-group": group}))},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs"}},
    });
    merge(&mut object, over);
    fixture.vpa(name, &object)
}

/// A pod as the controller of the `DaemonSet` creates it for this node.
fn pod_on(node: &str) -> Value {
    let mut pod = pod(&json!({}));
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "uid": "d", "controller": true}]);
    pod["metadata"] =
        json!({"generateName": "logs-", "labels": {"app": "logs"}, "ownerReferences": owner});
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    pod["spec"]["affinity"] =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    pod
}

/// The labels that a pod is created with, and the VPA object that sizes it.
fn created(fixture: &Fixture, pod: &Value) -> (Value, Option<String>) {
    let mut pod = pod.clone();
    if let Some(patch) = patch_in(
        &fixture
            .decide(pod_review(&pod).to_string().as_bytes())
            .review,
    ) {
        let patch: json_patch::Patch = serde_json::from_value(patch).expect("a JSON patch");
        json_patch::patch(&mut pod, &patch).expect("it applies");
    }
    let updates = pod["metadata"]["annotations"]["vpaUpdates"].as_str();
    let by = updates.and_then(|text| {
        let text = text.strip_prefix("Pod resources updated by ")?;
        Some(text.split(':').next()?.to_owned())
    });
    (pod["metadata"]["labels"].clone(), by)
}

/// Expects labels in addition to `app`, and the VPA object, of a pod on each node.
fn check(fixture: &Fixture, node: &str, labels: &Value, by: Option<&str>) {
    let mut expected = json!({"app": "logs"});
    merge(&mut expected, labels);
    let (labels, found) = created(fixture, &pod_on(node));
    assert_eq!(labels, expected, "{node}");
    assert_eq!(found.as_deref(), by, "{node}");
}

#[test]
fn a_pod_has_the_label_of_its_nodes_group_and_the_size_of_its_vpa() {
    let fixture = fixture();
    let fixture = vpa(fixture, "b", Some("pool=big"), &json!({}));
    let fixture = vpa(fixture, "s", Some("pool=small"), &json!({}));
    let fixture = vpa(fixture, "e", Some("pool="), &json!({}));
    check(&fixture, "big", &json!({POOL: "big"}), Some("b"));
    check(&fixture, "small", &json!({POOL: "small"}), Some("s"));
    check(&fixture, "empty", &json!({POOL: ""}), Some("e"));
    check(&fixture, "bare", &json!({}), None);
    check(&fixture, "unknown", &json!({}), None);
    // An older one without a group is for the other nodes.
    let older = json!({"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}});
    let fixture = vpa(fixture, "plain", None, &older);
    check(&fixture, "big", &json!({POOL: "big"}), Some("b"));
    check(&fixture, "bare", &json!({}), Some("plain"));
    check(&fixture, "unknown", &json!({}), Some("plain"));
}

#[test]
fn each_label_that_an_object_names_is_copied_and_the_oldest_object_sizes_the_pod() {
    let older = json!({"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}});
    let fixture = vpa(fixture(), "pool", Some("pool=big"), &json!({}));
    let fixture = vpa(fixture, "zone", Some("example.com/zone=a"), &older);
    let both = json!({POOL: "big", ZONE: "a"});
    check(&fixture, "big", &both, Some("zone"));
    check(&fixture, "small", &json!({}), None);
}

#[test]
fn an_object_that_only_recommends_has_its_pods_labelled() {
    let off = json!({"spec": {"updatePolicy": {"updateMode": "Off"}}});
    let fixture = vpa(fixture(), "b", Some("pool=big"), &off);
    check(&fixture, "big", &json!({POOL: "big"}), None);
    let mut unlabelled = pod_on("big");
    unlabelled["metadata"]["labels"] = json!(null);
    let selected = created(&fixture, &unlabelled);
    assert_eq!(
        selected,
        (json!(null), None),
        "the target does not select it"
    );
}

#[test]
fn an_invalid_annotation_sizes_nothing() {
    for group in ["pool", "pool=b=c", "-a=b"] {
        let fixture = vpa(fixture(), "b", Some(group), &json!({}));
        check(&fixture, "big", &json!({}), None);
    }
    let annotations = json!({"plimsoll.dev/node-group": "pool=big"});
    let fixture = Fixture::new().vpa("web", &json!({"metadata": {"annotations": annotations}}));
    assert_eq!(fixture.patch(&pod(&json!({}))), None, "a Deployment");
}

#[test]
fn the_label_of_the_node_replaces_one_in_the_template() {
    let fixture = vpa(fixture(), "b", Some("pool=big"), &json!({}));
    let fixture = vpa(fixture, "s", Some("pool=small"), &json!({}));
    for (node, template, expected) in [
        ("big", "small", ("big", Some("b"))),
        ("big", "big", ("big", Some("b"))),
        // Without a group of the node, the template decides.
        ("bare", "small", ("small", Some("s"))),
        ("bare", "other", ("other", None)),
    ] {
        let mut pod = pod_on(node);
        pod["metadata"]["labels"][POOL] = json!(template);
        let (labels, by) = created(&fixture, &pod);
        let found = (labels[POOL].as_str().expect("a label"), by.as_deref());
        assert_eq!(found, expected, "{node} {template}");
    }
}

#[test]
fn a_pod_that_is_not_sized_after_an_error_is_labelled() {
    let boost = json!({"spec": {"startupBoost": {"cpu": {"type": "Quantity"}}}});
    let mut fixture = vpa(fixture(), "b", Some("pool=big"), &boost);
    fixture.config.gates.cpu_startup_boost = true;
    check(&fixture, "big", &json!({POOL: "big"}), None);
}

#[test]
fn a_node_that_is_not_known_yet_is_named_if_it_matters() {
    let unknown = |fixture: &Fixture, node: &str| {
        let input = Input {
            view: &fixture.view,
            feed: None,
            config: &fixture.config,
        };
        let body = pod_review(&pod_on(node)).to_string();
        review(&input, body.as_bytes()).awaits
    };
    let fixture = vpa(fixture(), "plain", None, &json!({}));
    assert_eq!(unknown(&fixture, "new"), None, "no object has a group");
    let fixture = vpa(fixture, "invalid", Some("pool"), &json!({}));
    assert_eq!(unknown(&fixture, "new"), None, "no valid one");
    let mut fixture = vpa(fixture, "b", Some("pool=big"), &json!({}));
    assert_eq!(
        unknown(&fixture, "new"),
        Some(Awaited::Node {
            namespace: "shop".to_owned(),
            name: "new".to_owned()
        })
    );
    assert_eq!(unknown(&fixture, "bare"), None);
    fixture.config.node_groups = false;
    assert_eq!(unknown(&fixture, "new"), None, "no node is watched");
    check(&fixture, "big", &json!({}), Some("plain"));
}

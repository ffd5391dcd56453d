//! VPA objects of a `DaemonSet`, each for a group of nodes.

use serde_json::json;
use view::{Pod, Vpa, WellKnown};

use super::fixture::{Cluster, MI, check, pod, usage};
use crate::fixture::{self, deployment};
use crate::recommender_state::Decision;

/// An object with this group for the `DaemonSet`, or another workload, `logs`.
fn object(name: &str, kind: &str, group: Option<&str>) -> Vpa {
    let annotations = group.map(|group| json!({"plimsoll.dev/node-group": group}));
    let metadata = json!({"uid": name, "annotations": annotations});
    let target = json!({"apiVersion": "apps/v1", "kind": kind, "name": "logs"});
    fixture::vpa(
        name,
        &json!({"metadata": metadata, "spec": {"targetRef": target}}),
    )
}

fn pod_in(name: &str, pool: Option<&str>) -> Pod {
    let pool = pool.map(|pool| ("node-group.plimsoll.dev/pool", pool));
    Pod {
        labels: [("app", "logs")].into_iter().chain(pool).collect(),
        ..pod(name, "logs")
    }
}

/// A `DaemonSet` and a Deployment with three pods of different usage.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new("default", false);
    for kind in [WellKnown::DaemonSet, WellKnown::Deployment] {
        cluster
            .view
            .controllers_mut(kind)
            .apply(deployment("logs", 3));
    }
    cluster.add_pod(pod_in("logs-b", Some("big")));
    cluster.add_pod(pod_in("logs-s", Some("small")));
    cluster.add_pod(pod_in("logs-x", None));
    cluster
}

fn measure(cluster: &mut Cluster, second: i64) {
    for (pod, millicores) in [("logs-b", 1000), ("logs-s", 250), ("logs-x", 60)] {
        cluster.add_usage(&usage(pod, second, millicores, 300 * MI), second);
    }
}

fn condition(decision: &Decision, kind: &str) -> Option<String> {
    let mut conditions = decision.status.conditions.iter();
    let found = conditions.find(|condition| condition.kind == kind)?;
    Some(found.message.clone())
}

#[test]
fn each_group_is_sized_by_its_own_pods() {
    let mut cluster = cluster();
    for pool in ["big", "small"] {
        cluster.apply(object(pool, "DaemonSet", Some(&format!("pool={pool}"))));
    }
    cluster.apply(object("none", "DaemonSet", Some("pool=none")));
    cluster.load(0);
    measure(&mut cluster, 1);
    let expected = [
        ("big", Some("1168m")),
        ("none", None),
        ("small", Some("296m")),
    ];
    check(&mut cluster, 2, &expected);
    let decisions = cluster.decide(3);
    let none = decisions.iter().find(|it| it.vpa.key.name == "none");
    let none = none.expect("it is decided about");
    assert_eq!(none.pods, 0);
    assert!(condition(none, "NoPodsMatched").is_some());
    assert_eq!(condition(none, "AnnotationRefused"), None);
}

#[test]
fn an_invalid_group_or_one_of_another_kind_selects_no_pod_and_says_so() {
    for (kind, group, reason) in [
        ("DaemonSet", "pool", "must be LABEL=VALUE"),
        ("Deployment", "pool=big", "the target must be a DaemonSet"),
    ] {
        let mut cluster = cluster();
        cluster.apply(object("logs", kind, Some(group)));
        cluster.load(0);
        measure(&mut cluster, 1);
        let decisions = cluster.decide(2);
        assert_eq!(decisions[0].pods, 0);
        assert_eq!(decisions[0].status.recommendation, None);
        assert!(condition(&decisions[0], "NoPodsMatched").is_some());
        let message = condition(&decisions[0], "AnnotationRefused").expect("refused");
        assert!(message.starts_with("annotation plimsoll.dev/node-group: "));
        assert!(message.contains(reason) && message.ends_with("; the object sizes nothing"));
    }
}

#[test]
fn another_group_selects_other_pods_at_once() {
    let mut cluster = cluster();
    for (second, group, pods) in [
        (0, Some("pool=big"), 1),
        (10, None, 3),
        (20, Some("pool=none"), 0),
        (30, Some("pool=small"), 1),
        (40, Some("pool=="), 0),
    ] {
        cluster.apply(object("logs", "DaemonSet", group));
        cluster.load(second);
        assert_eq!(cluster.decide(second + 1)[0].pods, pods, "{group:?}");
    }
}

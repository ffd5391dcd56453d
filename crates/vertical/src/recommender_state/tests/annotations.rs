//! VPA objects whose annotations choose another sizing method.

use std::sync::Arc;

use serde_json::json;
use view::HpaTargets;

use super::fixture::{Cluster, MI, annotated, check, pod, usage, web_key};
use crate::recommender_state::Decision;

#[test]
fn an_annotation_chooses_the_way_of_sizing_and_a_wrong_one_is_reported() {
    let crane = json!({"plimsoll.dev/sizing-policy": "crane"});
    let wrong = json!({"plimsoll.dev/sizing-policy": "magic"});
    let wrong_cap = json!({"plimsoll.dev/cap-to-schedulable": "node"});
    // 345m: the third tenth of a core and 15 %.
    let unused = json!({"plimsoll.dev/sizing-caution": "low"});
    for (annotations, expected, reported) in [
        (json!({}), "296m", None),
        (crane, "345m", None),
        (wrong, "296m", Some("AnnotationRefused")),
        (wrong_cap, "296m", Some("AnnotationRefused")),
        (unused, "296m", Some("AnnotationUnused")),
    ] {
        let mut cluster = Cluster::new("default", false);
        cluster.deploy("web");
        cluster.apply(annotated(&annotations));
        cluster.add_pod(pod("web-1", "web"));
        cluster.load(0);
        cluster.measure("web-1", "main", 1);
        let decisions = cluster.decide(2);
        let is_reported = |kind: &&str| {
            let of_kind = |decision: &Decision| {
                let mut conditions = decision.status.conditions.iter();
                conditions.any(|condition| condition.kind == *kind)
            };
            decisions.iter().any(of_kind)
        };
        let kinds = ["AnnotationRefused", "AnnotationUnused"];
        let found: Vec<_> = kinds.into_iter().filter(is_reported).collect();
        assert_eq!(found, Vec::from_iter(reported), "{annotations}");
        check(&mut cluster, 3, &[("web", Some(expected))]);
    }
}

#[test]
fn a_restarted_way_of_sizing_keeps_what_was_published_until_a_day_is_known() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    before.decide(2);
    let status = before
        .view
        .vpas
        .get(&web_key())
        .and_then(|web| web.object.status.clone());
    let mut web = annotated(&json!({"plimsoll.dev/sizing-policy": "autopilot-window"}));
    web.object.status = status;
    let mut after = before.new_process();
    after.apply(web);
    after.load(10);
    for minute in 0..=24 * 60 {
        let second = 60 * minute;
        after.add_usage(&usage("web-1", second, 10, 300 * MI), second);
        if minute == 0 || minute == 60 || minute == 24 * 60 - 1 {
            check(&mut after, second, &[("web", Some("296m"))]);
        }
    }
    check(&mut after, 24 * 3600, &[("web", Some("25m"))]);
}

#[test]
fn settings_of_an_object_count_and_a_wrong_one_is_reported() {
    for (annotation, value, expected, is_refused) in [
        ("plimsoll.dev/sizing-margin-fraction", "0", "258m", false),
        ("plimsoll.dev/limit-mode", "equal", "296m", false),
        ("plimsoll.dev/limit-mode", "twice", "296m", true),
        ("plimsoll.dev/sizing-cpu-percentile", "p50", "296m", false),
        ("plimsoll.dev/sizing-cpu-percentile", "95", "296m", true),
        ("plimsoll.dev/sizing-cpu-half-life", "1h", "296m", true),
    ] {
        let mut cluster = Cluster::new("default", false);
        cluster.deploy("web");
        cluster.apply(annotated(&json!({annotation: value})));
        cluster.add_pod(pod("web-1", "web"));
        cluster.load(0);
        cluster.measure("web-1", "main", 1);
        let refusals = cluster.decide(2).into_iter().filter_map(|decision| {
            let mut conditions = decision.status.conditions.into_iter();
            conditions.find(|condition| condition.kind == "AnnotationRefused")
        });
        let found: Vec<_> = refusals.collect();
        assert_eq!(found.len(), usize::from(is_refused), "{annotation}");
        assert!(found.iter().all(|found| found.message.contains(annotation)));
        check(&mut cluster, 3, &[("web", Some(expected))]);
    }
}

#[test]
fn a_resource_that_an_hpa_scales_by_has_no_number_unless_ignored() {
    for (mode, expected) in [("Ignore", true), ("Respect", false)] {
        let mut cluster = Cluster::new("default", false);
        cluster.deploy("web");
        cluster.apply(annotated(&json!({"plimsoll.dev/hpa": mode})));
        cluster.add_pod(pod("web-1", "web"));
        let hpa = json!({
            "metadata": {"namespace": "shop", "name": "native"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 9,
                "metrics": [{"type": "Resource", "resource": {
                    "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
                }}],
            },
        });
        let hpa = HpaTargets::from_k8s(serde_json::from_value(hpa).expect("an HPA"));
        cluster.view.hpa_targets.apply(Arc::new(hpa));
        cluster.load(0);
        cluster.measure("web-1", "main", 1);
        let status = json!(cluster.decide_status(2));
        let target = &status["recommendation"]["containerRecommendations"][0]["target"];
        assert!(target["memory"].is_string(), "{mode}: {status}");
        assert_eq!(target["cpu"].is_string(), expected, "{mode}: {status}");
    }
}

#[test]
fn the_text_of_a_refused_annotation_is_cut() {
    let mut cluster = Cluster::new("default", false);
    cluster.deploy("web");
    let long = json!({"plimsoll.dev/cap-to-schedulable": "x".repeat(200_000)});
    cluster.apply(annotated(&long));
    cluster.load(0);
    let status = cluster.decide_status(1);
    let mut conditions = status.conditions.iter();
    let refused = conditions.find(|condition| condition.kind == "AnnotationRefused");
    let message = refused.map(|refused| &*refused.message);
    assert!(
        message.is_some_and(|message| message.len() < 500),
        "{message:?}"
    );
}

//! Sums over the pods of node groups.

use model::{Cpu, Labels};
use serde_json::json;
use view::{Node, Phase, PodPlacement};

use super::super::pods_by_selector;
use super::super::tests::{self, MIB, resources};
use super::*;
use crate::fixture;

fn node(name: &str, group: Option<&str>) -> Arc<Node> {
    let label = group.map(|group| ("karpenter.sh/nodepool", group));
    Arc::new(Node {
        labels: label.into_iter().collect::<Labels>(),
        allocatable: resources(4000, 8192),
        ..tests::node(name, "", 4000)
    })
}

/// A pod with one container `main` that requests a tenth of a core, and overhead of 10m.
fn pod(name: &str, app: &str, node: Option<&str>, phase: Phase) -> Arc<Pod> {
    let overhead = Requirements {
        requests: Resources {
            cpu: Some(Cpu::from_millicores(10)),
            memory: None,
        },
        limits: Resources::default(),
    };
    let mut pod = fixture::pod(name, app);
    pod.phase = phase;
    pod.placement = Some(Arc::new(PodPlacement {
        node: node.map(str::to_owned),
        overhead,
        ..PodPlacement::default()
    }));
    pod.containers[0].requests = resources(100, 100);
    Arc::new(pod)
}

/// Expects by group: recommended, requested and allocatable millicores, and recommended mebibytes.
fn check(view: &View, expected: &[(&str, i64, i64, i64, i64)]) {
    let web = Arc::new(fixture::vpa("web", &json!({})));
    let selector = Selector::match_labels([("app", "web")]);
    let objects = [(&web, &selector)];
    let by_selector = pods_by_selector(view, &objects);
    let groups = PodsByGroup::find(view, &objects, &by_selector);
    let recommendation: Recommendation = serde_json::from_value(json!({
        "containerRecommendations": [{"containerName": "main", "target": {"cpu": "300m"}}],
    }))
    .expect("a recommendation");
    let totals = groups.totals(|vpa| (vpa.key == web.key).then_some(&recommendation));
    let found = totals.iter().map(|(group, sums)| {
        let cpu = [sums.recommended, sums.requested, sums.allocatable];
        let [recommended, requested, allocatable] = cpu.map(|it| it.cpu.millicores());
        let memory = sums.recommended.memory.bytes() / MIB;
        (&**group, recommended, requested, allocatable, memory)
    });
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn pods_count_in_the_group_of_their_node_with_what_is_recommended() {
    let mut view = View::default();
    check(&view, &[]);
    for (name, group) in [("n1", Some("batch")), ("n2", Some("batch")), ("n3", None)] {
        view.nodes.apply(node(name, group));
    }
    for (name, app, node, phase) in [
        ("web-1", "web", Some("n1"), Phase::Running),
        ("web-2", "web", Some("n3"), Phase::Running),
        ("other-1", "other", Some("n2"), Phase::Running),
        ("other-2", "other", Some("gone"), Phase::Running),
        ("done-1", "web", Some("n1"), Phase::Succeeded),
    ] {
        view.pods.apply(pod(name, app, node, phase));
    }
    for (name, node) in [("web-3", None), ("web-4", Some("n2"))] {
        view.pending_pods
            .apply(pod(name, "web", node, Phase::Pending));
    }
    // Memory is not recommended, so that of the request counts.
    let expected = [
        ("", 310, 110, 0, 100),
        ("-", 310 + 110, 220, 4000, 200),
        ("batch", 310 + 310 + 110, 330, 8000, 300),
    ];
    check(&view, &expected);
}

#[test]
fn the_number_of_groups_is_bounded() {
    let mut view = View::default();
    for index in 0..MAX_GROUPS + 5 {
        view.nodes
            .apply(node(&format!("n{index}"), Some(&format!("g{index:03}"))));
    }
    let groups = PodsByGroup::find(&view, &[], &pods_by_selector(&view, &[]));
    let totals = groups.totals(|_| None);
    assert_eq!(totals.len(), MAX_GROUPS + 1);
    assert_eq!(
        totals[NO_GROUP].allocatable.cpu,
        Cpu::from_millicores(20_000)
    );
    assert!(totals.contains_key("g199") && !totals.contains_key("g200"));
}

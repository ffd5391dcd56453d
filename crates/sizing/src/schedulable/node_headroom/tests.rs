//! Headroom of pods in small pools of nodes.

use model::{NodeTerm, Requirement};

use super::*;

const GIB: i64 = 1 << 30;

fn amounts(millicores: i64, gibibytes: i64) -> Amounts {
    Amounts::new(millicores, gibibytes * GIB)
}

fn node(name: &str, pool: &str, millicores: i64, gibibytes: i64) -> NodeInfo {
    NodeInfo {
        name: name.to_owned(),
        could_come: false,
        labels: [("pool", pool)].into_iter().collect(),
        taints: Vec::new(),
        allocatable: amounts(millicores, gibibytes),
        extended: ResourceList::new(),
        bound: amounts(0, 0),
    }
}

fn daemon(name: &str, pool: Option<&str>, millicores: i64, gibibytes: i64) -> DaemonSetInfo {
    DaemonSetInfo {
        key: ("kube-system".to_owned(), name.to_owned()),
        constraints: in_pool(pool),
        requests: amounts(millicores, gibibytes),
    }
}

fn in_pool(pool: Option<&str>) -> NodeConstraints {
    let term = |pool: &str| NodeTerm {
        labels: vec![Requirement::In("pool".into(), [pool.into()].into())],
        fields: Vec::new(),
    };
    let terms = pool.map(|pool| vec![term(pool)]);
    NodeConstraints {
        terms,
        ..NodeConstraints::default()
    }
}

/// Expects the free resources of pods in a pool: node, millicores, gibibytes.
fn check(rooms: &NodeHeadrooms, pool: Option<&str>, expected: &[(&str, i64, i64)]) {
    let CandidateNodes::One(found) = rooms.for_pods(&in_pool(pool)) else {
        panic!("pods need one node")
    };
    let found = found.iter().map(|room| {
        let Amounts { cpu, memory } = room.left;
        (room.node.as_str(), cpu.millicores(), memory.bytes() / GIB)
    });
    assert_eq!(found.collect::<Vec<_>>(), expected, "{pool:?}");
}

#[test]
fn headroom_excludes_daemon_sets_and_the_margin() {
    let mut nodes = vec![node("a", "x", 8000, 32), node("b", "y", 16_000, 64)];
    nodes[1].bound = amounts(100, 1);
    let proxy = daemon("proxy", None, 100, 1);
    let daemons = vec![proxy, daemon("gpu", Some("y"), 1000, 2)];
    let rooms = NodeHeadrooms::new(nodes.clone(), daemons.clone(), 0.0);
    check(&rooms, None, &[("b", 14_800, 60)]);
    check(&rooms, Some("x"), &[("a", 7900, 31)]);
    check(&rooms, Some("z"), &[]);
    let rooms = NodeHeadrooms::new(nodes, daemons, 0.25);
    check(&rooms, Some("x"), &[("a", 5900, 23)]);
}

#[test]
fn dominated_nodes_are_left_out() {
    let nodes = vec![
        node("small", "x", 1000, 1),
        node("cores", "x", 64_000, 64),
        node("memory", "x", 16_000, 256),
        node("like-cores", "x", 64_000, 64),
    ];
    let rooms = NodeHeadrooms::new(nodes, Vec::new(), 0.0);
    let expected = [("cores", 64_000, 64), ("memory", 16_000, 256)];
    check(&rooms, None, &expected);
}

#[test]
fn a_node_whose_taint_is_not_tolerated_does_not_count() {
    let taint = Taint {
        key: "gpu".to_owned(),
        value: String::new(),
        effect: model::Effect::NoSchedule,
    };
    let mut nodes = vec![node("a", "x", 1000, 1), node("b", "x", 9000, 9)];
    nodes[1].taints = vec![taint];
    let rooms = NodeHeadrooms::new(nodes, Vec::new(), 0.0);
    check(&rooms, None, &[("a", 1000, 1)]);
}

#[test]
fn a_node_that_could_come_counts_for_one_pod_and_has_no_name() {
    let mut nodes = vec![node("a", "x", 4000, 8), node("big", "y", 16_000, 64)];
    nodes[1].could_come = true;
    let proxy = daemon("proxy", None, 500, 1);
    let rooms = NodeHeadrooms::new(nodes, vec![proxy], 0.0);
    check(&rooms, None, &[("big", 15_500, 63)]);
    check(&rooms, Some("x"), &[("a", 3500, 7)]);
    let key = ("kube-system".to_owned(), "proxy".to_owned());
    let present = NodeHeadroom {
        node: "a".to_owned(),
        left: amounts(4000, 8),
    };
    let every = CandidateNodes::Every(present.clone(), present);
    assert_eq!(rooms.for_daemon(&key, None), Some(every));
    let by_name = |name: &str| NodeConstraints {
        terms: Some(vec![NodeTerm {
            labels: Vec::new(),
            fields: vec![Requirement::In(
                "metadata.name".into(),
                [name.into()].into(),
            )],
        }]),
        ..NodeConstraints::default()
    };
    for (name, expected) in [("a", 1), ("big", 0)] {
        let CandidateNodes::One(found) = rooms.for_pods(&by_name(name)) else {
            panic!("pods need one node")
        };
        assert_eq!(found.len(), expected, "{name}");
    }
}

#[test]
fn a_pod_of_a_daemon_fits_on_each_of_its_nodes() {
    let nodes = vec![
        node("cores", "x", 8000, 4),
        node("memory", "x", 4000, 8),
        node("other", "y", 1000, 1),
    ];
    let own = daemon("self", Some("x"), 500, 1);
    let daemons = vec![own, daemon("proxy", None, 100, 0)];
    let rooms = NodeHeadrooms::new(nodes, daemons, 0.0);
    let key = |name: &str| ("kube-system".to_owned(), name.to_owned());
    let room = |node: &str, millicores, gibibytes| NodeHeadroom {
        node: node.to_owned(),
        left: amounts(millicores, gibibytes),
    };
    let expected = CandidateNodes::Every(room("memory", 3900, 8), room("cores", 7900, 4));
    assert_eq!(rooms.for_daemon(&key("self"), None), Some(expected));
    assert_eq!(rooms.for_daemon(&key("unknown"), None), None);
    let proxy = |pool: &str| rooms.for_daemon(&key("proxy"), Some(("pool", pool)));
    let other = room("other", 1000, 1);
    let in_y = CandidateNodes::Every(other.clone(), other);
    assert_eq!(proxy("y"), Some(in_y));
    let in_x = CandidateNodes::Every(room("memory", 3500, 7), room("cores", 7500, 3));
    assert_eq!(proxy("x"), Some(in_x));
    assert_eq!(proxy("z"), Some(CandidateNodes::One(Vec::new())));
}

#[test]
fn the_chosen_node_cuts_least_of_the_scarce_resource() {
    let check = |fixed: Amounts, wanted: Amounts, expected: Option<&str>| {
        let cores = node("cores", "x", 64_000, 64);
        let nodes = vec![cores, node("memory", "x", 16_000, 256)];
        let rooms = NodeHeadrooms::new(nodes, Vec::new(), 0.0);
        let rooms = rooms.for_pods(&NodeConstraints::default());
        let chosen = rooms.choose(fixed, wanted);
        let chosen = chosen.map(|(room, _)| room.node.as_str());
        assert_eq!(chosen, expected, "{fixed:?} {wanted:?}");
    };
    let nothing = amounts(0, 0);
    check(nothing, amounts(40_000, 32), Some("cores"));
    check(nothing, amounts(8000, 100), Some("memory"));
    check(nothing, amounts(40_000, 100), Some("cores"));
    check(nothing, amounts(20_000, 200), Some("memory"));
    check(nothing, amounts(1000, 1), Some("memory"));
    check(amounts(20_000, 0), amounts(1000, 1), Some("cores"));
    check(amounts(70_000, 0), amounts(1000, 1), None);
}

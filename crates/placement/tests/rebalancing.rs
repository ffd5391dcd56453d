//! Plans of rebalancing: which pods leave, which stay, and an end under constant load.

use jiff::{SignedDuration, Timestamp};
use placement::{
    Amounts, Commitment, Deviation, LoadVariationRiskBalancing, Mobility, Move, MoveReason, Policy,
    PressureTargets, Prioritizer, RebalancingConfig, RebalancingNode, RebalancingPod,
    TargetLoadPacking, plan,
};
use proptest::prelude::*;

const SIZE: i64 = 10_000;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + minute * 60).expect("a time")
}

fn amounts(cpu_millicores: i64, memory_bytes: i64) -> Amounts {
    Amounts {
        cpu_millicores,
        memory_bytes,
    }
}

fn packing() -> Prioritizer {
    Prioritizer {
        policy: Policy::TargetLoadPacking(TargetLoadPacking::default()),
        targets: PressureTargets::default(),
    }
}

fn balancing() -> Prioritizer {
    let plugin = LoadVariationRiskBalancing::default();
    Prioritizer {
        policy: Policy::LoadVariationRiskBalancing(plugin),
        targets: PressureTargets::default(),
    }
}

fn pod(node: usize, load: (i64, i64), mobility: Mobility) -> RebalancingPod {
    let load = amounts(load.0, load.1);
    RebalancingPod {
        uid: String::new(),
        node,
        load,
        commitment: Commitment {
            requests: load,
            limits: load,
        },
        mobility,
        moved_at: None,
    }
}

/// Nodes whose usage is the load of their pods.
fn nodes(count: usize, pods: &[RebalancingPod], was_hot: &[bool]) -> Vec<RebalancingNode> {
    let node = |index: usize| {
        let of_node = pods.iter().filter(|pod| pod.node == index);
        let usage = of_node
            .map(|pod| pod.load)
            .fold(Amounts::default(), Amounts::plus);
        let percent = usage.cpu_millicores.max(usage.memory_bytes) as f64 * 100.0 / SIZE as f64;
        RebalancingNode {
            name: format!("n{index}"),
            is_hot: percent > 80.0 || (was_hot[index] && percent >= 65.0),
            is_schedulable: true,
            capacity: amounts(SIZE, SIZE),
            allocatable: amounts(SIZE, SIZE),
            usage,
            deviation: Deviation::default(),
        }
    };
    (0..count).map(node).collect()
}

/// Moves as (pod, to) on three nodes.
fn check(pods: &[RebalancingPod], prioritizer: &Prioritizer, expected: &[(usize, usize)]) {
    let nodes = nodes(3, pods, &[false; 3]);
    let config = RebalancingConfig::default();
    let found = plan(&nodes, pods, prioritizer, &config, at(0), |_, node| {
        node != 2
    });
    let found: Vec<_> = found.iter().map(|it| (it.pod, it.to)).collect();
    assert_eq!(found, expected, "{pods:?}");
}

#[test]
fn the_largest_movable_pods_leave_a_hot_node_until_it_is_cool() {
    use Mobility::{Movable, Pinned};
    let on_hot = |mobility| pod(0, (3000, 0), mobility);
    let mut pods = vec![
        pod(0, (1000, 0), Movable),
        on_hot(Movable),
        on_hot(Movable),
        on_hot(Pinned),
        pod(1, (500, 0), Movable),
    ];
    // A second large pod would make node 1 as warm as a hot node that has cooled.
    check(&pods, &packing(), &[(1, 1), (0, 1)]);
    pods[1].moved_at = Some(at(-59));
    check(&pods, &packing(), &[(2, 1), (0, 1)]);
    pods[1].moved_at = Some(at(-60));
    check(&pods, &packing(), &[(1, 1), (0, 1)]);
    // Node 1 would not stay cool; node 2 cannot run the pods.
    pods[4].load = amounts(6000, 0);
    check(&pods, &packing(), &[]);
}

#[test]
fn a_fragmented_node_is_emptied_only_when_everything_fits_elsewhere_and_scores_better() {
    use Mobility::{Movable, PerNode, Pinned};
    let mut pods = vec![
        pod(0, (500, 0), Movable),
        pod(0, (400, 0), Movable),
        pod(0, (100, 0), PerNode),
        pod(1, (2500, 0), Movable),
    ];
    check(&pods, &packing(), &[(0, 1), (1, 1)]);
    // The policy that spreads load would put the pods back.
    check(&pods, &balancing(), &[]);
    pods[1].mobility = Pinned;
    check(&pods, &packing(), &[]);
    pods[1].mobility = Movable;
    pods[1].commitment.requests = amounts(1400, 7600);
    check(&pods, &packing(), &[]);
}

#[test]
fn reasons_and_the_largest_number_of_moves_are_given() {
    let pods: Vec<_> = (0..9)
        .map(|_| pod(0, (1000, 0), Mobility::Movable))
        .collect();
    let config = RebalancingConfig {
        max_moves: 2,
        ..RebalancingConfig::default()
    };
    let nodes = nodes(3, &pods, &[false; 3]);
    let found = plan(&nodes, &pods, &balancing(), &config, at(0), |_, _| true);
    assert_eq!(found.len(), 2, "{found:?}");
    let is_relief = |it: &Move| it.reason == MoveReason::HotNode && it.from == 0 && it.gain >= 10;
    assert!(found.iter().all(is_relief), "{found:?}");
    assert!(plan(&[], &pods, &balancing(), &config, at(0), |_, _| true).is_empty());
}

fn any_pod(count: usize) -> impl Strategy<Value = RebalancingPod> {
    let mobility = prop_oneof![
        8 => Just(Mobility::Movable),
        1 => Just(Mobility::Pinned),
        1 => Just(Mobility::PerNode),
    ];
    (0..count, (0..4000_i64, 0..3000_i64), mobility)
        .prop_map(|(node, load, mobility)| pod(node, load, mobility))
}

fn highest_percent(node: &RebalancingNode) -> f64 {
    node.usage.cpu_millicores.max(node.usage.memory_bytes) as f64 * 100.0 / SIZE as f64
}

proptest! {
    #[test]
    fn plans_move_no_pod_twice_make_no_node_hot_and_come_to_an_end(
        mut pods in prop::collection::vec(any_pod(5), 0..30),
        is_packing in any::<bool>(),
    ) {
        let prioritizer = if is_packing { packing() } else { balancing() };
        let config = RebalancingConfig::default();
        let rounds = 2 * pods.len() + 5;
        let mut hot = vec![false; 5];
        let mut came_to_an_end = false;
        for round in 0..=rounds {
            let now = at(61 * round as i64);
            let before = nodes(5, &pods, &hot);
            hot = before.iter().map(|node| node.is_hot).collect();
            let moves = plan(&before, &pods, &prioritizer, &config, now, |_, _| true);
            came_to_an_end = moves.is_empty();
            if came_to_an_end {
                break;
            }
            prop_assert!(moves.len() <= config.max_moves);
            for it in &moves {
                prop_assert_eq!(pods[it.pod].node, it.from, "one move per pod");
                prop_assert_eq!(pods[it.pod].mobility, Mobility::Movable);
                prop_assert!(it.gain >= config.min_gain && !hot[it.to]);
                pods[it.pod].node = it.to;
                pods[it.pod].moved_at = Some(now);
            }
            let after = nodes(5, &pods, &hot);
            for it in &moves {
                prop_assert!(highest_percent(&after[it.to]) < config.cool_percent);
            }
            let soon = now + SignedDuration::from_mins(59);
            for it in plan(&after, &pods, &prioritizer, &config, soon, |_, _| true) {
                prop_assert!(moves.iter().all(|done| done.pod != it.pod), "ping-pong: {it:?}");
            }
        }
        prop_assert!(came_to_an_end, "plans do not end");
    }
}

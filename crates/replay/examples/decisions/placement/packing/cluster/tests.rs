//! Small replays, computed by hand, and the conservation of pods.

use placement::Allocation;
use proptest::prelude::*;
use replay::Series;

use super::*;
use crate::placement::packing::{Machine, Scoring, life_cycle};

const LEAST: Scheduler = allocated(Allocation::Least);
const MOST: Scheduler = allocated(Allocation::Most);

const fn allocated(by: Allocation) -> Scheduler {
    Scheduler::plain(Scoring::Allocated(by))
}

/// Pods with a CPU usage in cores in each slot of five minutes, and 1 GiB of memory.
fn workload(cores: &[&[f64]]) -> Workload {
    let series = |usage: Vec<f64>| Series {
        start: 1_577_836_800,
        step: 300,
        usage,
        provisioned: 0.0,
    };
    let machine = |cores: &&[f64]| Machine {
        cpu: series(cores.iter().map(|cores| 1000.0 * cores).collect()),
        memory: series(vec![1024.0; cores.len()]),
    };
    let machines: Vec<Machine> = cores.iter().map(machine).collect();
    Workload::copies(&machines, 1, 0)
}

/// A request of cores and GiB from a slot on.
fn request((slot, pod, cores, gibibytes): (usize, usize, i64, i64)) -> RequestChange {
    let request = Amounts {
        cpu_millicores: 1000 * cores,
        memory_bytes: gibibytes << 30,
    };
    RequestChange { slot, pod, request }
}

fn event((slot, arrives, pod): (usize, bool, usize)) -> LifeEvent {
    LifeEvent { slot, arrives, pod }
}

/// Replays pods, and compares the sum of requested cores on the nodes, in descending order, and the
/// number of pending pods after each slot. Returns the sum of the scores.
fn check(
    packing: Packing,
    cores: &[&[f64]],
    requests: &[(usize, usize, i64, i64)],
    events: &[(usize, bool, usize)],
    expected: &[(&[i64], usize)],
) -> PackingScore {
    let workload = workload(cores);
    let requests: Vec<_> = requests.iter().copied().map(request).collect();
    let life_cycle: Vec<_> = events.iter().copied().map(event).collect();
    let replay = Replay {
        packing,
        workload: &workload,
        requests: &requests,
        life_cycle: &life_cycle,
        seed: 1,
    };
    let mut found = Vec::new();
    let mut total = PackingScore::new(300);
    let scores = replay.trace(|_, state| {
        let requests = state.nodes.iter().map(|node| node.requests);
        let mut cores: Vec<i64> = requests.map(|sum| sum.cpu_millicores / 1000).collect();
        cores.sort_unstable_by(|one, other| other.cmp(one));
        found.push((cores, state.pending.len()));
    });
    for score in &scores {
        total = total.plus(score);
    }
    let expected: Vec<(Vec<i64>, usize)> = expected
        .iter()
        .map(|(cores, pending)| (cores.to_vec(), *pending))
        .collect();
    assert_eq!(found, expected, "{packing:?}");
    total
}

/// Cores on the nodes, without pending pods.
fn placed(cores: &[i64]) -> (&[i64], usize) {
    (cores, 0)
}

fn packing(nodes: usize, scheduler: Scheduler) -> Packing {
    Packing {
        nodes,
        scheduler,
        rebalances: false,
    }
}

const ARRIVALS: [(usize, bool, usize); 3] = [(0, true, 0), (0, true, 1), (0, true, 2)];

#[test]
fn pods_are_spread_or_packed_and_wait_for_room() {
    let cores: &[&[f64]] = &[&[4.0; 3][..]; 3];
    let requests = [(0, 0, 6, 1), (0, 1, 6, 1), (0, 2, 5, 1)];
    check(
        packing(3, LEAST),
        cores,
        &requests,
        &ARRIVALS,
        &[placed(&[6, 6, 5]); 3],
    );
    check(
        packing(3, MOST),
        cores,
        &requests,
        &ARRIVALS,
        &[placed(&[12, 5, 0]); 3],
    );
    // 17 cores do not fit on one node, until a pod departs.
    let mut events = ARRIVALS.to_vec();
    events.push((2, false, 1));
    check(
        packing(1, MOST),
        cores,
        &requests,
        &events,
        &[(&[12], 1), (&[12], 1), (&[11], 0)],
    );
}

#[test]
fn a_request_grows_in_place_or_on_another_node_after_a_slot() {
    let cores: &[&[f64]] = &[&[4.0; 4][..]; 2];
    let events = [(0, true, 0), (0, true, 1)];
    let requests = [(0, 0, 6, 1), (0, 1, 6, 1), (1, 0, 10, 1), (2, 1, 7, 1)];
    let score = check(
        packing(2, MOST),
        cores,
        &requests,
        &events,
        &[(&[12, 0], 0), (&[16, 0], 0), (&[16, 0], 0), (&[10, 7], 0)],
    );
    // The slots of the first half are not scored.
    assert_eq!((score.resize_moves, score.rebalance_moves), (1, 0));
    assert_eq!((score.slots, score.node_slots, score.pod_slots), (2, 3, 4));
    // Without another node the request stays until there is room.
    let shrinks = [(0, 0, 6, 1), (0, 1, 6, 1), (1, 0, 12, 1), (3, 1, 4, 1)];
    let score = check(
        packing(1, MOST),
        cores,
        &shrinks,
        &events,
        &[(&[12], 0), (&[12], 0), (&[12], 0), (&[16], 0)],
    );
    assert_eq!(score.resize_moves, 0);
}

#[test]
fn hot_slots_and_overflows_are_those_of_nodes_with_pods() {
    let cores: &[&[f64]] = &[
        &[7.0, 7.0, 7.0, 7.3, 7.3, 7.0],
        &[7.0, 7.0, 7.0, 7.2, 7.0, 7.5],
    ];
    let events = [(0, true, 0), (0, true, 1)];
    let requests = [(0, 0, 8, 1), (0, 1, 8, 1)];
    let score = check(
        packing(2, MOST),
        cores,
        &requests,
        &events,
        &[placed(&[16, 0]); 6],
    );
    // 14.5, 14.3 and 14.5 of 16 cores.
    let found = (score.node_slots, score.hot_slots, score.overflow_slots);
    assert_eq!(found, (3, 2, 0));
    let score = check(
        packing(2, LEAST),
        cores,
        &requests,
        &events,
        &[placed(&[8, 8]); 6],
    );
    assert_eq!((score.node_slots, score.hot_slots), (6, 0));
}

#[test]
fn rebalancing_moves_a_pod_from_a_hot_node_once() {
    let cores: &[&[f64]] = &[
        &[4.0, 4.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0],
        &[0.0, 3.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0],
    ];
    let events = [(0, true, 0), (1, true, 1)];
    let requests = [(0, 0, 8, 1), (0, 1, 8, 1)];
    // The expected load of the second pod is small, so that it is placed on the node of the first.
    let policy = Policy::TargetLoadPacking(TargetLoadPacking::default());
    let scheduler = Scheduler {
        multiplier: 0.1,
        ..Scheduler::trimaran(policy)
    };
    let together: (&[i64], usize) = (&[16, 0], 0);
    let apart: (&[i64], usize) = (&[8, 8], 0);
    let first: (&[i64], usize) = (&[8, 0], 0);
    for rebalances in [false, true] {
        let packing = Packing {
            rebalances,
            ..packing(2, scheduler)
        };
        // The node has 88 % from the third slot on, and is hot after five more minutes.
        let late = if rebalances { apart } else { together };
        let expected = [first, together, together, together, late, late, late, late];
        let score = check(packing, cores, &requests, &events, &expected);
        assert_eq!(score.rebalance_moves, u64::from(rebalances));
    }
}

fn schedulers() -> [Scheduler; 6] {
    use placement::{LoadVariationRiskBalancing, LowRiskOverCommitment};
    [
        LEAST,
        MOST,
        Scheduler::plain(Scoring::Crane),
        Scheduler::trimaran(Policy::TargetLoadPacking(TargetLoadPacking::default())),
        Scheduler::trimaran(Policy::LoadVariationRiskBalancing(
            LoadVariationRiskBalancing::default(),
        )),
        Scheduler::trimaran(Policy::LowRiskOverCommitment(
            LowRiskOverCommitment::default(),
        )),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every present pod is on one node or pending, and the sums of the nodes are those of their
    /// pods.
    #[test]
    fn no_pod_is_lost_and_none_is_on_two_nodes(
        sizes in prop::collection::vec((1_i64..9, 1_i64..40, 0.0_f64..9.0), 1..12),
        nodes in 1_usize..5,
        changes in prop::collection::vec((0_usize..600, 0_usize..12, 1_i64..12, 1_i64..40), 0..40),
        seed in 0_u64..1000,
        rebalances: bool,
    ) {
        let usage: Vec<Vec<f64>> = sizes.iter().map(|(_, _, cores)| vec![*cores; 600]).collect();
        let usage: Vec<&[f64]> = usage.iter().map(Vec::as_slice).collect();
        let workload = workload(&usage);
        let first = sizes.iter().enumerate().map(|(pod, (cores, gibibytes, _))| (0, pod, *cores, *gibibytes));
        let later = changes.into_iter().filter(|change| change.1 < sizes.len());
        let mut requests: Vec<_> = first.chain(later).map(request).collect();
        requests.sort_by_key(|change| (change.slot, change.pod));
        let life_cycle = life_cycle(sizes.len(), 600, 300, seed);
        for scheduler in schedulers() {
            let replay = Replay {
                packing: Packing { nodes, scheduler, rebalances },
                workload: &workload,
                requests: &requests,
                life_cycle: &life_cycle,
                seed,
            };
            replay.trace(|slot, state| {
                let mut sums = vec![(Amounts::default(), 0); nodes];
                for (index, pod) in state.pods.iter().enumerate() {
                    let mut events = life_cycle.iter().rev();
                    let last = events.find(|event| event.pod == index && event.slot <= slot);
                    let is_present = last.is_some_and(|event| event.arrives);
                    let pending = state.pending.iter().filter(|pending| **pending == index).count();
                    let places = pending + usize::from(pod.node.is_some());
                    assert_eq!(places, usize::from(is_present), "pod {index} in slot {slot}");
                    if let Some(node) = pod.node {
                        sums[node].0 = sums[node].0.plus(pod.request);
                        sums[node].1 += 1;
                    }
                }
                for (node, (requests, pods)) in state.nodes.iter().zip(sums) {
                    assert_eq!((node.requests, node.pods), (requests, pods));
                    assert!(requests.fits(NODE), "{requests:?}");
                }
            });
        }
    }
}

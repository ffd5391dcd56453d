//! Duration of scoring 5,000 nodes for one pod, with the look-ups of load and reservations, and the
//! 99th percentile.
//!
//! `cargo bench -p placement`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use jiff::{SignedDuration, Timestamp};
use placement::peaks::PowerModel;
use placement::{
    Amounts, Commitment, LoadRiskCache, LoadSnapshot, LoadVariationRiskBalancing,
    LowRiskOverCommitment, NodeLoad, NodeState, PodDemand, PodKey, Policy, PressureTargets,
    Prioritizer, Reservations, TargetLoadPacking, Usage, Window, WindowLoad,
};
use testing::measured::Latencies;

const NODES: usize = 5_000;
const SIZE: Amounts = Amounts {
    cpu_millicores: 16_000,
    memory_bytes: 64 << 30,
};

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().expect("a time")
}

fn part(amounts: Amounts, percent: i64) -> Amounts {
    Amounts {
        cpu_millicores: amounts.cpu_millicores * percent / 100,
        memory_bytes: amounts.memory_bytes / 100 * percent,
    }
}

fn commitment(percent: i64) -> Commitment {
    Commitment {
        requests: part(SIZE, percent),
        limits: part(SIZE, 2 * percent),
    }
}

fn load(number: usize) -> NodeLoad {
    let usage = |seed: usize| {
        Some(Usage {
            average_percent: (number * seed % 900) as f64 / 10.0,
            deviation_percent: (number * seed % 130) as f64 / 10.0,
        })
    };
    NodeLoad {
        cpu: usage(7919),
        memory: usage(6007),
        network: usage(4099),
        disk: usage(2741),
    }
}

struct Cluster {
    names: Vec<String>,
    snapshot: LoadSnapshot,
    reservations: Reservations,
    load_risks: Vec<LoadRiskCache>,
}

fn cluster() -> Cluster {
    let names: Vec<String> = (0..NODES).map(|number| format!("node-{number}")).collect();
    let mut snapshot = LoadSnapshot::default();
    for window in Window::ALL {
        let nodes = names.iter().cloned().enumerate();
        let load = WindowLoad {
            end: now(),
            nodes: nodes.map(|(number, name)| (name, load(number))).collect(),
        };
        snapshot.update(window, load);
    }
    let mut reservations = Reservations::default();
    for number in 0..10_000 {
        let node = &names[number * 31 % NODES];
        let at = now() - SignedDuration::from_secs((number % 120) as i64);
        let uid = format!("uid-{number}");
        let pod = PodKey {
            namespace: &names[number % 50],
            uid: &uid,
        };
        reservations.bind(pod, node, part(SIZE, 2), at, now());
    }
    let load_risks = names.iter().map(|_| LoadRiskCache::default()).collect();
    Cluster {
        names,
        snapshot,
        reservations,
        load_risks,
    }
}

/// Scores of all nodes, from their names.
fn prioritize(cluster: &Cluster, prioritizer: &Prioritizer, pod: &PodDemand) -> Vec<i64> {
    let max_age = SignedDuration::from_mins(5);
    let fresh = cluster.snapshot.fresh(Window::Fifteen, now(), max_age);
    let fresh = fresh.expect("fresh metrics");
    let state = |(number, name): (usize, &String)| {
        let found = fresh.node(name);
        NodeState {
            capacity: SIZE,
            allocatable: SIZE,
            commitment: commitment((number % 60) as i64),
            pods: 30,
            load: found.map(|(_, load)| load),
            reserved: cluster.reservations.reserved_for(
                PodKey::default(),
                name,
                found.map(|(end, _)| end),
                now(),
            ),
            power: Some(PowerModel {
                k0: 400.0,
                k1: -300.0,
                k2: -0.05,
            }),
            load_risk: cluster.load_risks.get(number),
        }
    };
    let nodes: Vec<NodeState> = cluster.names.iter().enumerate().map(state).collect();
    prioritizer.scores(pod, &nodes, None)
}

fn policies(c: &mut Criterion) {
    let cluster = cluster();
    let pod = PodDemand {
        load: part(SIZE, 3),
        commitment: commitment(4),
    };
    let targets = PressureTargets {
        memory_percent: Some(80),
        network_percent: Some(80),
        disk_percent: Some(80),
    };
    for (name, policy) in [
        (
            "target load packing",
            Policy::TargetLoadPacking(TargetLoadPacking::default()),
        ),
        (
            "load variation risk balancing",
            Policy::LoadVariationRiskBalancing(LoadVariationRiskBalancing::default()),
        ),
        (
            "low risk over-commitment",
            Policy::LowRiskOverCommitment(LowRiskOverCommitment::default()),
        ),
        ("peaks", Policy::Peaks),
    ] {
        let prioritizer = Prioritizer { policy, targets };
        let mut latencies = Latencies::default();
        c.bench_function(&format!("{name}, {NODES} nodes"), |bencher| {
            bencher.iter_custom(|count| {
                let mut sum = Duration::ZERO;
                for _ in 0..count {
                    let start = Instant::now();
                    black_box(prioritize(&cluster, &prioritizer, black_box(&pod)));
                    let duration = start.elapsed();
                    latencies.add(duration);
                    sum += duration;
                }
                sum
            });
        });
        let (runs, summary) = (latencies.count(), latencies.summary());
        println!("{name}: {summary} of {runs} runs");
    }
}

criterion_group!(benches, policies);
criterion_main!(benches);

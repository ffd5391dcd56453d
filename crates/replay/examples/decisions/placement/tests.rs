//! Pods on nodes: the same scores with any number of threads, and lower risk on more nodes.

use placement::{Allocation, LowRiskOverCommitment, Policy, TargetLoadPacking};
use rayon::prelude::*;
use replay::Series;

use super::packing::{
    Machine, NODE, Packing, PackingScore, Replay, Scheduler, Scoring, Sizing, Workload, life_cycle,
};

const STEP: i64 = 300;
const SLOTS: usize = 12 * 288;

/// A machine with a busy and an idle time of each day.
fn machine(index: usize) -> Machine {
    let series = |idle: f64, busy: f64, provisioned: f64| Series {
        start: 1_577_836_800,
        step: STEP,
        usage: (0..SLOTS)
            .map(|slot| {
                if (slot + 40 * index) % 288 < 96 {
                    busy
                } else {
                    idle
                }
            })
            .collect(),
        provisioned,
    };
    let size = 1.0 + (index % 4) as f64;
    Machine {
        cpu: series(200.0 * size, 900.0 * size, 1500.0 * size),
        memory: series(2000.0, 3000.0 * size, 5000.0 * size),
    }
}

fn scores(threads: usize) -> Vec<[PackingScore; 2]> {
    let machines: Vec<Machine> = (0..8).map(machine).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    pool.build().expect("threads").install(|| {
        let workload = Workload::copies(&machines, 3, 86_400);
        let life_cycle = life_cycle(workload.pods(), workload.slots(), STEP, 5);
        let target = Policy::TargetLoadPacking(TargetLoadPacking::default());
        let risk = Policy::LowRiskOverCommitment(LowRiskOverCommitment::default());
        let schedulers = [
            Scheduler::plain(Scoring::Allocated(Allocation::Most)),
            Scheduler::plain(Scoring::Crane),
            Scheduler::trimaran(target),
            Scheduler::trimaran(risk),
        ];
        let sizings = [Sizing::Provisioned, Sizing::Vpa, Sizing::Plimsoll("normal")];
        let requests = sizings.map(|sizing| workload.requests(sizing, NODE));
        let mut replays = Vec::new();
        for requests in &requests {
            for (scheduler, nodes) in schedulers.into_iter().flat_map(|it| [(it, 4), (it, 12)]) {
                replays.push(Replay {
                    packing: Packing {
                        nodes,
                        scheduler,
                        rebalances: true,
                    },
                    workload: &workload,
                    requests,
                    life_cycle: &life_cycle,
                    seed: 9,
                });
            }
        }
        replays.par_iter().map(Replay::run).collect()
    })
}

#[test]
fn a_replay_gives_the_same_scores_each_time_with_any_number_of_threads() {
    let one = scores(1);
    assert_eq!(scores(1), one);
    assert_eq!(scores(2), one);
    for pair in one.chunks(2) {
        let [few, many] = [&pair[0][1], &pair[1][1]];
        assert_eq!((few.slots, few.pod_slots), (many.slots, many.pod_slots));
        assert_eq!(many.pending_slots, 0, "{many:?}");
    }
    // Provisioned requests of 24 pods are 90 cores: four nodes are too few for them.
    assert!(one[0][1].pending_percent() > 5.0, "{:?}", one[0][1]);
    // With requests by usage fewer pods wait.
    assert!(one[16][1].pending_percent() < one[0][1].pending_percent());
}

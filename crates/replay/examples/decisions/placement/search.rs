//! The fewest nodes at a bound of hot slots and of pending pods.

use super::packing::{
    LifeEvent, Machine, Packing, PackingScore, Replay, RequestChange, Scheduler, Workload,
    life_cycle,
};

/// Copies of the machines, each shifted by five days more.
const COPIES: usize = 6;
const SHIFT: i64 = 5 * 86_400;
/// Seeds of arrivals, departures and equal scores. Scores are sums over them.
const SEEDS: [u64; 3] = [1, 2, 3];
/// Largest number of nodes that is tried.
pub(crate) const MOST_NODES: usize = 80;
/// Most hot slots and slots of pending pods, in percent.
const HOT_PERCENT: f64 = 1.0;
const PENDING_PERCENT: f64 = 0.1;

pub(crate) struct Inputs {
    pub(crate) workload: Workload,
    life_cycles: Vec<Vec<LifeEvent>>,
    /// Index of the scored half.
    half: usize,
}

impl Inputs {
    pub(crate) fn new(machines: &[Machine], half: usize) -> Self {
        let workload = Workload::copies(machines, COPIES, SHIFT);
        let (pods, slots, step) = (workload.pods(), workload.slots(), workload.step());
        Self {
            workload,
            life_cycles: SEEDS
                .map(|seed| life_cycle(pods, slots, step, seed))
                .to_vec(),
            half,
        }
    }

    pub(crate) fn score(&self, requests: &[RequestChange], packing: Packing) -> PackingScore {
        self.score_of(SEEDS.len(), requests, packing)
    }

    fn score_of(&self, seeds: usize, requests: &[RequestChange], packing: Packing) -> PackingScore {
        let life_cycles = SEEDS.iter().zip(&self.life_cycles).take(seeds);
        let scores = life_cycles.map(|(seed, life_cycle)| {
            let replay = Replay {
                packing,
                workload: &self.workload,
                requests,
                life_cycle,
                seed: *seed,
            };
            replay.run()[self.half].clone()
        });
        let none = PackingScore::new(self.workload.step());
        scores.fold(none, |sum, score| sum.plus(&score))
    }

    /// The least number of nodes within the bounds, and the score there; `None` and the score at
    /// [`MOST_NODES`] if even these are too few.
    ///
    /// Few pods are pending from some number of nodes on. A bisection with the first seed finds it,
    /// and the numbers from two below are tried with all seeds.
    pub(crate) fn least(
        &self,
        requests: &[RequestChange],
        scheduler: Scheduler,
    ) -> (Option<usize>, PackingScore) {
        let packing = |nodes| Packing {
            nodes,
            scheduler,
            rebalances: false,
        };
        let (mut too_few, mut enough) = (0, MOST_NODES);
        while enough - too_few > 1 {
            let nodes = (too_few + 2 * enough) / 3;
            let score = self.score_of(1, requests, packing(nodes));
            if score.pending_percent() <= PENDING_PERCENT {
                enough = nodes;
            } else {
                too_few = nodes;
            }
        }
        let mut nodes = enough.saturating_sub(2).max(1);
        loop {
            let score = self.score(requests, packing(nodes));
            let passes =
                score.hot_percent() <= HOT_PERCENT && score.pending_percent() <= PENDING_PERCENT;
            if passes || nodes >= MOST_NODES {
                return (passes.then_some(nodes), score);
            }
            nodes += 1;
        }
    }
}

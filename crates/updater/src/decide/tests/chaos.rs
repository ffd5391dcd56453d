//! Hundreds of rounds of bad luck: the API server pauses, refuses, fails and does things all the same; what is seen of the cluster
//! is late or cut off; the leader dies with requests under way; the clock jumps. Never is more taken than may be.
//!
//! Each round has a seed, which is printed; `PLIMSOLL_CHAOS_SEED` runs one alone.

mod cluster_model;
mod updater_model;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use cluster_model::ClusterModel;
use updater_model::UpdaterModel;

const ROUNDS: u64 = 500;
const STEPS: usize = 70;
/// Steps without any trouble at the end, in which everything must come right.
const CALM_STEPS: usize = 400;

/// What happened in a round.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    evictions: u64,
    restarts: u64,
    resizes: u64,
    refused: u64,
    vain: u64,
}

fn round(seed: u64, count: &mut Count) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut cluster = ClusterModel::new(&mut rng, seed);
    let mut updater = UpdaterModel::new(&cluster);
    for step in 0..STEPS {
        if rng.random_bool(0.01) {
            cluster.jump_clock(rng.random_bool(0.5));
        }
        if rng.random_bool(0.04) {
            cluster.want_other_sizes(&mut rng);
        }
        if rng.random_bool(0.02) {
            // The leader dies; what it asked for may still come about before the next one begins.
            updater.die(&mut cluster, &mut rng);
            updater = UpdaterModel::new(&cluster);
        }
        updater.step(&mut cluster, &mut rng, step, true);
        cluster.step(&mut rng);
    }
    for step in STEPS..STEPS + CALM_STEPS {
        updater.step(&mut cluster, &mut rng, step, false);
        cluster.step(&mut rng);
        if cluster.is_content(&updater.settings) {
            break;
        }
    }
    cluster.check_content(&updater.settings);
    count.evictions += cluster.count.evictions;
    count.restarts += cluster.count.restarts;
    count.resizes += cluster.count.resizes;
    count.refused += cluster.count.refused;
    count.vain += cluster.count.vain;
}

#[test]
fn no_budget_is_ever_exceeded() {
    let mut count = Count::default();
    if let Ok(seed) = std::env::var("PLIMSOLL_CHAOS_SEED") {
        round(seed.parse().expect("a number"), &mut count);
        println!("seed {seed}: {count:?}");
        return;
    }
    for seed in 0..ROUNDS {
        round(seed, &mut count);
    }
    println!("seeds 0 to {}: {count:?}", ROUNDS - 1);
    assert!(count.evictions > 5 * ROUNDS && count.restarts > ROUNDS && count.resizes > ROUNDS, "{count:?}");
    assert!(count.refused > ROUNDS, "{count:?}");
    assert!(count.vain * 50 < count.evictions, "budgets are asked in vain: {count:?}");
}

//! Random faults: the API server delays, rejects and fails requests, some of which take effect;
//! watches are late or interrupted; the leader dies with requests in flight; the clock jumps;
//! workloads are scaled, Jobs go on, nodes are lost, get hot and have no room for resizes, and other
//! clients evict pods; programs need more memory, and no resize of a stopped container reaches its
//! pod's cgroup; Deployments are paused and rolled by others; the webhook is not called, or another
//! program reverts it; quotas are full, sources of usage do not answer, and the scheduler sends pods
//! back. No group loses more than its tolerance allows, no budget is exceeded, no pod is moved twice
//! within an hour, and none is evicted more than twice for one recommendation by one leader. No rolling update begins
//! during another one or soon after it, and during one no other pod stops serving.
//!
//! `PLIMSOLL_CHAOS_ROUNDS` is the number of rounds and `PLIMSOLL_CHAOS_SEED` the seed of the first;
//! a seed without a number runs one round.
//! `PLIMSOLL_CHAOS_ROUNDS=500 cargo test -p rollout chaos -- --nocapture` runs many.

mod cluster_model;
mod updater_model;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use cluster_model::ClusterModel;
use updater_model::UpdaterModel;

/// Rounds where the environment does not say how many.
const ROUNDS: u64 = 100;
const STEPS: usize = 70;
/// Steps without any trouble at the end, in which everything must come right.
const CALM_STEPS: usize = 800;

/// Steps of the end after which the time between two rolling updates has passed.
const ROLL_STEPS: usize = 50;

/// Steps without a leader after one has died.
const LEASE_STEPS: usize = 10;

/// The number of things that happened.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    evictions: u64,
    restarts: u64,
    resizes: u64,
    refused: u64,
    vain: u64,
    scaled_down: u64,
    lost: u64,
    completed: u64,
    resumed: u64,
    moves: u64,
    rolls: u64,
    refused_rolls: u64,
    deferred: u64,
    infeasible: u64,
    preempted: u64,
    oom_kills: u64,
}

/// Prints the seed of a round that fails, however it does.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the round with seed {0} failed: PLIMSOLL_CHAOS_SEED={0}",
                self.0
            );
        }
    }
}

fn round(seed: u64, count: &mut Count) {
    let _seed = Seed(seed);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut cluster = ClusterModel::new(&mut rng, std::mem::take(count));
    let mut updater = UpdaterModel::new(&mut cluster);
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
            for _ in 0..LEASE_STEPS {
                cluster.step(&mut rng);
            }
            updater = UpdaterModel::new(&mut cluster);
        }
        cluster.trouble(&mut rng);
        updater.step(&mut cluster, &mut rng, step, true);
        cluster.step(&mut rng);
    }
    cluster.calm();
    for step in STEPS..STEPS + CALM_STEPS {
        if step % ROLL_STEPS == 0 {
            cluster.wait_for_rolling_update();
        }
        updater.step(&mut cluster, &mut rng, step, false);
        cluster.step(&mut rng);
        if cluster.is_content() {
            break;
        }
    }
    cluster.check_content();
    *count = cluster.count;
}

#[test]
fn no_tolerance_and_no_budget_is_ever_exceeded() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect("a number"))
    };
    let (seed, rounds) = (
        number("PLIMSOLL_CHAOS_SEED"),
        number("PLIMSOLL_CHAOS_ROUNDS"),
    );
    let rounds = rounds.unwrap_or(if seed.is_some() { 1 } else { ROUNDS });
    let first = seed.unwrap_or(0);
    println!("{rounds} rounds from seed {first}");
    let mut count = Count::default();
    for seed in first..first.saturating_add(rounds) {
        round(seed, &mut count);
    }
    println!("{count:?}");
    if rounds < ROUNDS {
        return;
    }
    assert!(
        count.evictions > 4 * rounds && count.restarts > rounds && count.resizes > rounds,
        "{count:?}"
    );
    assert!(
        count.refused > rounds && count.scaled_down > rounds && count.lost > rounds,
        "{count:?}"
    );
    assert!(
        count.moves > rounds / 8 && count.preempted > rounds / 8 && count.infeasible > rounds / 10,
        "{count:?}"
    );
    assert!(count.oom_kills > rounds / 4, "{count:?}");
    assert!(
        count.rolls > rounds / 2 && count.refused_rolls > rounds / 2,
        "{count:?}"
    );
    assert!(
        count.completed > rounds / 2 && count.resumed > rounds / 10,
        "{count:?}"
    );
    assert!(
        count.vain * 20 < count.evictions,
        "too many evictions violate budgets: {count:?}"
    );
}

//! Replays of pods on nodes: recorded usage, requests of a sizing policy, scores of a scheduler.
//!
//! In every slot, in this order:
//!
//! 1. Pods depart, by [`mod@life_cycle`].
//! 2. New recommendations change the requests of running pods in place, if their node has room.
//!    A pod that waits for room since an earlier slot moves to another node that has it.
//! 3. With rebalancing, the plan of `placement` evicts pods.
//! 4. Pending pods, evicted pods and arrivals are placed, in this order. The scheduler sees the load
//!    of the slots before. A pod that fits on no node stays pending.
//! 5. The usage of the pods in the slot is the load of their nodes.
//!
//! | part | file |
//! |---|---|
//! | pods, their usage and requests | `packing/workload.rs` |
//! | arrivals and departures | `packing/life_cycle.rs` |
//! | nodes and their load | `packing/node.rs` |
//! | choice of a node | `packing/scheduler.rs` |
//! | the replay | `packing/cluster.rs` |
//! | hot slots, utilization, moves | `packing/score.rs` |

mod cluster;
mod life_cycle;
mod node;
mod scheduler;
mod score;
mod workload;

pub use cluster::{Packing, Replay};
pub use life_cycle::{LifeEvent, life_cycle};
pub use node::NODE;
pub use scheduler::{Scheduler, Scoring};
pub use score::PackingScore;
pub use workload::{Machine, RequestChange, Sizing, Workload};

use rayon::prelude::*;

/// The scores of several replays, in their order.
pub fn run_all(replays: &[Replay<'_>]) -> Vec<[PackingScore; 2]> {
    replays.par_iter().map(Replay::run).collect()
}

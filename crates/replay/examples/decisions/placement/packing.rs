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
//! | pods, their usage and requests | `workload.rs` |
//! | arrivals and departures | `life_cycle.rs` |
//! | nodes and their load | `node.rs` |
//! | choice of a node | `scheduler.rs` |
//! | the replay | `cluster.rs` |
//! | hot slots, utilization, moves | `score.rs` |

mod cluster;
mod life_cycle;
mod node;
mod scheduler;
mod score;
mod workload;

pub(crate) use cluster::{Packing, Replay};
pub(crate) use life_cycle::{LifeEvent, life_cycle};
pub(crate) use node::NODE;
pub(crate) use scheduler::{Scheduler, Scoring};
pub(crate) use score::PackingScore;
pub(crate) use workload::{Machine, RequestChange, Sizing, Workload};

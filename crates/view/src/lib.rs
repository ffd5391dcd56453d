//! The parts of a Kubernetes cluster that can change a decision, held in memory.
//!
//! * [`View`]: tables of [`Pod`], [`Controller`], [`Autoscaler`], [`Checkpoint`], [`LimitRange`] and
//!   other objects. Each is reduced to what a decision reads, and changes only by `apply`, `delete`
//!   and `reset`.
//! * [`target`]: resolution of a VPA's target to its pods, as a pure function of the [`View`].
//! * [`oom`]: OOM kills, from two states of one pod. [`Eviction`]s are read from events.
//!
//! No I/O here: crate `watch` keeps a [`View`] current.
//!
//! | formula | file |
//! |---|---|
//! | pods that a VPA sizes | `target.rs` |
//! | time of an OOM kill, and evictions that count as one | `oom.rs`, `eviction.rs` |
//! | the EHPA that scales a workload, and the prediction that counts | `oldest_wins.rs` |
//! | shard of a namespace | `shard.rs` |

mod autoscaler;
mod budget;
mod checkpoint;
mod controller;
mod cron_schedule;
mod daemon;
mod eviction;
mod freshness;
mod installer;
mod labelled;
mod limit_range;
mod node;
mod oldest_wins;
pub mod oom;
mod owner;
mod placement;
mod pod;
mod policy;
mod prediction;
mod quota;
mod resources;
mod running;
mod scale;
mod scope;
mod shard;
mod stop_switch;
mod stripped;
mod table;
pub mod target;
mod view;
mod webhook_lease;

pub use autoscaler::Autoscaler;
pub use budget::DisruptionBudget;
pub use checkpoint::Checkpoint;
pub use controller::{Controller, WellKnown};
pub use cron_schedule::CronSchedule;
pub use daemon::Daemon;
pub use eviction::Eviction;
pub use freshness::{Freshness, Resource};
pub use installer::{installations, installing_writer};
pub use labelled::LabelledPod;
pub use limit_range::{LimitRange, LimitRangeItem, LimitType};
pub use node::Node;
pub use oldest_wins::{Contender, OldestWins};
pub use oom::OomKill;
pub use owner::Owner;
pub use placement::Placement;
pub use pod::{Container, ContainerState, ContainerStatus, Phase, Pod, Sidecar, Termination};
pub use policy::{Policy, PolicyScope};
pub use prediction::{MANAGED_BY, PredictedMetric, Prediction};
pub use quota::{Quota, QuotaScope};
pub use resources::{Requirements, Resources};
pub use running::{ANNOTATION_PREFIXES, ContainerSpec, ResizeCondition, ResizeStage, Running};
pub use scale::{PodSet, ReadScale, Scale, ScaleKey};
pub use scope::Scope;
pub use shard::{Shard, ShardError};
pub use stop_switch::StopSwitch;
pub use stripped::Stripped;
pub use table::{Change, Entry, ObjectKey, ObjectName, Table};
pub use view::{Namespace, View};
pub use webhook_lease::WebhookLease;

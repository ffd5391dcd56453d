//! The part of a Kubernetes cluster that can change a decision, held in memory.
//!
//! * [`View`]: plain tables of [`Pod`], [`Controller`], [`Autoscaler`], [`Checkpoint`],
//!   [`LimitRange`], namespaces and scale subresources, each trimmed to what a decision reads,
//!   changed only by `apply`, `delete` and `reset`.
//! * [`target`]: which pods an autoscaler means, as a pure function of the [`View`].
//! * [`oom`]: which containers were killed for want of memory, from two states of one pod. Events
//!   about [`Eviction`]s tell of others.
//!
//! Nothing here reads from the cluster or writes to it: crate `watch` keeps a [`View`] current.
//!
//! | formula | file |
//! |---|---|
//! | which pods an autoscaler sizes | `target.rs` |
//! | when an OOM kill happened, and which evictions are one | `oom.rs`, `eviction.rs` |
//! | which of several effective autoscalers scales a workload, whose prediction counts | `claim.rs` |
//! | which shard a namespace belongs to | `shard.rs` |

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

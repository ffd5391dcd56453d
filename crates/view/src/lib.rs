//! The part of a Kubernetes cluster that can change a decision, held in memory and kept current by
//! watches.
//!
//! * [`View`]: plain tables of [`Pod`], [`Controller`], [`Autoscaler`], [`Checkpoint`],
//!   [`LimitRange`], namespaces and scale subresources, each trimmed to what a decision reads,
//!   changed only by `apply`, `delete` and `reset`.
//! * [`Watches`]: keeps a [`View`] current. Errors never empty it: it keeps its last state, says
//!   since when it is stale and tries again for ever.
//! * [`target`]: which pods an autoscaler means, as a pure function of the [`View`].
//! * [`oom`]: which containers were killed for want of memory, from two states of one pod. Events
//!   about [`Eviction`]s tell of others.
//!
//! Nothing here writes to the cluster.
//!
//! What a tenant can write is bounded. Objects are read one by one, without the fields that no
//! decision reads (`watch/left_out.rs`). The weight of an object is about the memory that the rest
//! of it takes. Objects above these weights are not used; the metric of rejected objects counts
//! them, and a log line, at most once a minute for each kind, says so:
//!
//! | kind | one object | objects above the usual weight, of one namespace together |
//! |---|---|---|
//! | workload controllers | 512 KiB | 8 MiB, usual is 8 KiB |
//! | `TimeSeriesPrediction` | 4 MiB | 128 MiB, usual is 32 KiB |
//! | pods | 512 KiB | 16 MiB, usual is 32 KiB |
//! | all others | 512 KiB | 4 MiB, usual is 32 KiB |
//!
//! An object that was used before and grows above a limit is as good as deleted. One that is too
//! large by itself is used after a change that makes it smaller. One that is refused since its
//! namespace's large objects weigh too much together is used after its next change if there is room
//! then. When others of them go or shrink so that there may be room, the kind is listed again at
//! the end of a watch, at least four minutes after the last list, usually within ten minutes.
//!
//! How many objects of the usual weight there are is up to the API server: quotas such as
//! `count/cronjobs.batch` bound it.
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
mod claim;
mod controller;
mod daemon;
mod eviction;
mod freshness;
mod heartbeat;
mod installer;
mod labelled;
mod limit_range;
mod node;
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
mod switch;
mod table;
pub mod target;
mod timetable;
mod view;
mod watch;
mod whole;

pub use autoscaler::Autoscaler;
pub use budget::DisruptionBudget;
pub use checkpoint::Checkpoint;
pub use claim::{Claim, Eldest};
pub use controller::{Controller, WellKnown};
pub use daemon::Daemon;
pub use eviction::Eviction;
pub use freshness::{Freshness, Resource};
pub use heartbeat::Heartbeat;
pub use installer::{installations, installing_writer};
pub use labelled::LabelledPod;
pub use limit_range::{LimitRange, LimitRangeItem, LimitType};
pub use node::Node;
pub use oom::OomKill;
pub use owner::Owner;
pub use placement::Placement;
pub use pod::{Container, ContainerState, ContainerStatus, Phase, Pod, Sidecar, Termination};
pub use policy::{Policy, Reach};
pub use prediction::{MANAGED_BY, PredictedMetric, Prediction};
pub use quota::{Quota, QuotaScope};
pub use resources::{Asked, Resources};
pub use running::{ResizeCondition, ResizeStage, Running, Specified};
pub use scale::{PodSet, ReadScale, Scale, ScaleKey, ScaleQuestions};
pub use scope::Scope;
pub use shard::{Shard, ShardError};
pub use switch::Switch;
pub use table::{Change, Entry, ObjectKey, ObjectName, Table};
pub use timetable::Timetable;
pub use view::{Namespace, View};
pub use watch::Watches;
pub use whole::Whole;

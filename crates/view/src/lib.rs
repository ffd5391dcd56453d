//! The parts of a Kubernetes cluster that can change a decision, held in memory.
//!
//! * [`View`]: tables of [`Pod`], [`Controller`], [`Vpa`], [`Checkpoint`], [`LimitRange`] and
//!   other objects. Each is reduced by its `from_k8s` to what a decision reads, and changes only by
//!   `apply`, `delete` and `reset`.
//! * [`target`]: resolution of a VPA's target to its pods, as a pure function of the [`View`].
//! * [`Matched`]: the join of pods, workloads, VPA objects and budgets, and the VPA objects that a
//!   change concerns.
//! * [`oom_kill`]: OOM kills, from two states of one pod. [`Eviction`]s are read from events.
//! * `view`, `table`, `freshness`: the tables and their age
//! * `pod`, `pod_placement`, `pod_runtime`, `bound_pod`: forms of a pod, by what is read
//! * `workload_controller`, `scale`: what creates pods
//! * `vpa`, `policy`, `prediction`, `hpa_targets`, `checkpoint`: objects of autoscalers
//! * `limits`: constraints of a namespace
//! * `node`, `node_pool`: nodes, their groups and those that could be added
//! * `effective_resources`, `memory_cgroup`, `memory_pressure_eviction`: what the kubelet reports
//! * `oldest_wins`, `namespace_scope`: who decides, about which namespaces, in which order
//! * `other_autoscaler`, `installer`, `updater_preconditions`: other programs and operators
//!
//! No I/O here: crate `watch` keeps a [`View`] current.
//!
//! | formula | file |
//! |---|---|
//! | pods that a VPA sizes | `target.rs` |
//! | VPA object that controls a pod, budgets that cover it | `matched.rs` |
//! | time of an OOM kill, and evictions that count as one | `oom_kill.rs`, `memory_pressure_eviction.rs` |
//! | memory that is in effect after a resize of a stopped container | `memory_cgroup.rs` |
//! | a pod as one container, for `podPolicy` | `whole_pod.rs` |
//! | the EHPA that scales a workload, and the prediction that counts | `oldest_wins.rs` |
//! | group of a node, by its labels | `node.rs` |
//! | nodes that a node pool may add, groups at their maximum | `node_pool.rs` |
//! | shard of a namespace | `namespace_scope.rs` |

mod bound_pod;
mod changes;
mod checkpoint;
mod effective_resources;
mod freshness;
mod hpa_targets;
mod installer;
mod limits;
mod matched;
mod memory_cgroup;
mod memory_pressure_eviction;
mod namespace_scope;
mod node;
mod node_pool;
mod oldest_wins;
pub mod oom_kill;
mod other_autoscaler;
mod pod;
mod pod_placement;
mod pod_runtime;
mod policy;
mod prediction;
mod scale;
mod selector_index;
mod table;
pub mod target;
mod updater_preconditions;
mod view;
mod vpa;
mod whole_pod;
mod workload_controller;

pub use bound_pod::{BoundContainer, BoundPod, ContainerKind};
pub use changes::{ChangeTracker, ClusterChangeTracker, ClusterChanges};
pub use checkpoint::Checkpoint;
pub use effective_resources::{Requirements, Resources};
pub use freshness::{Freshness, Resource};
pub use hpa_targets::{HpaTargets, UtilizationTarget};
pub use installer::{installations, installing_writer, is_reverted};
pub use limits::{DisruptionBudget, LimitRange, Quota, QuotaScope};
pub use matched::{
    BudgetPods, Matched, MatchedScope, VpaOrder, VpaPods, same_budget, same_selection,
};
pub use memory_cgroup::{MemoryCgroup, MemoryInEffect};
pub use memory_pressure_eviction::Eviction;
pub use namespace_scope::{Scope, Shard, ShardError, interleave_namespaces};
pub use node::{DaemonSetShare, NODE_GROUP_LABELS, Node, node_group};
pub use node_pool::{AutoscaledGroup, AutoscaledGroups, NodeClaim, NodePool};
pub use oldest_wins::{Contender, CronSchedule, OldestWins};
pub use oom_kill::OomKill;
pub use other_autoscaler::{AUTOSCALER_NAMESPACES, AutoscalerRole, OtherAutoscaler, POD_SELECTORS};
pub use pod::{Container, ContainerState, ContainerStatus, LabelledPod, Phase, Pod, Termination};
pub use pod_placement::{PodPlacement, requests};
pub use pod_runtime::{ANNOTATION_PREFIXES, ContainerSpec, ResizeCondition, ResizeStage, Running};
pub use policy::{Policy, PolicyScope};
pub use prediction::{MANAGED_BY, PredictedMetric, Prediction};
pub use scale::{PodSet, ReadScale, Scale, ScaleKey};
pub use selector_index::SelectorIndex;
pub use table::{Change, Entry, ObjectKey, ObjectName, Table, changed_keys};
pub use updater_preconditions::{StopSwitch, WebhookLease};
pub use view::{Namespace, View};
pub use vpa::{Stripped, Vpa};
pub use workload_controller::{Controller, Owner, PodTemplate, WellKnown};

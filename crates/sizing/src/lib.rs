//! How big should a container be? From usage samples to target and bounds, bit-equal to upstream's
//! Vertical Pod Autoscaler.
//!
//! Pure: no input or output, no clock. Time is an argument. Where each formula lives:
//!
//! | formula | file |
//! |---|---|
//! | bucket boundaries, bucket of a value | `buckets.rs` |
//! | adding, taking back, merging weights; percentile | `histogram.rs` |
//! | decay by half-life | `decaying.rs` |
//! | stored form of a history | `checkpoint.rs` |
//! | CPU samples, memory peaks per window, OOM bump | `container.rs` |
//! | history of like containers | `aggregate.rs` |
//! | history that comes late, put before what was seen | `fleet/earlier.rs` |
//! | percentile, margin, confidence, minimum | `estimate.rs` |
//! | rounding and published quantities | `format.rs` |
//! | whole cores by annotation | `integer_cpu.rs` |
//! | from an amount to a published quantity | `publish.rs` |
//! | every step of one number | `explain.rs` |
//! | which policy a container has | `policy.rs` |
//! | minimum and maximum allowed | `capping.rs` |
//! | what nodes leave to a pod | `schedulable/node_room.rs` |
//! | what quotas and limit ranges leave | `schedulable/quota.rs`, `schedulable/limit_range.rs` |
//! | how the containers of a pod share that | `schedulable/share.rs`, `schedulable/fit.rs` |
//! | what each container of one pod gets, held to limit ranges and policies | `pod_size.rs`, `pod_size/pod_total.rs`, `pod_size/cap.rs` |
//! | limits in proportion | `pod_size/proportion.rs` |
//! | settings and their defaults | `config.rs` |
//! | Crane: target utilisation | `crane/resource.rs` |
//! | Crane: weighted percentile, OOM protection, list of sizes | `crane/percentile.rs`, `crane/oom.rs`, `crane/specification.rs` |
//! | Autopilot: moving windows, statistics of load | `autopilot/moving_window.rs`, `autopilot/statistic.rs` |
//! | Autopilot: margin, maximum of the last hour | `autopilot/margin.rs`, `autopilot/recent_maximum.rs` |
//! | Autopilot: ensemble of models and its costs | `autopilot/ensemble.rs`, `autopilot/model.rs` |
//! | which of these an autoscaler asks for | `sizing_policy.rs` |
//! | how many container names and histories are kept | `fleet/bounds.rs` |
//! | what is kept while little is known | `fleet/own_policy.rs` |
//! | all pods, histories and autoscalers | `fleet.rs`, `fleet/` |
//! | exp2, ln, power with the same bits everywhere | `float.rs`, `float/` |

mod aggregate;
mod amount;
mod autopilot;
mod buckets;
mod capping;
mod checkpoint;
mod config;
mod container;
mod crane;
mod decaying;
mod estimate;
mod explain;
mod fleet;
mod float;
pub mod format;
mod histogram;
mod instant;
mod integer_cpu;
mod pod_size;
mod policy;
mod publish;
mod schedulable;
mod sizing_policy;

pub use aggregate::{Aggregate, Shapes};
pub use autopilot::{AutopilotMethod, EnsembleConfig, MovingWindowConfig, Statistic};
pub use buckets::{Buckets, BucketsError};
pub use capping::cap;
pub use checkpoint::{CHECKPOINT_VERSION, Checkpoint, CheckpointError, HistogramCheckpoint};
pub use config::{Config, ConfigError, MemoryRules, Percentiles, WithoutUsage};
pub use crane::parse_duration as parse_crane_duration;
pub use crane::{
    CraneConfig, CraneConfigError, HistogramSettings, Layout, PercentileError, PercentilePredictor,
    PercentileSettings, Specification, SpecificationError, Specifications, WeightedHistogram,
    protected_memory,
};
pub use decaying::{DecayingHistogram, HalfLife, Shape};
pub use estimate::{Amounts, Estimate};
pub use fleet::{
    Accepted, AutoscalerId, AutoscalerSpec, Fleet, FleetSize, MAX_CONTAINERS, MAX_IDLE_HISTORIES,
    Phase, PodSpec, SampleError,
};
pub use histogram::{EPSILON, Histogram};
pub use integer_cpu::integer_cpu_containers;
pub use pod_size::{
    CappedRecommendation, ContainerSize, PodContainer, ProportionalLimits, Target, cap_for_pod,
    pod_sizes, proportional_limits,
};
pub use policy::{ContainerPolicy, DEFAULT_CONTAINER, ScalingMode, policy_for};
pub use schedulable::{
    Ceiling, ContainerShape, DaemonFacts, Fit, Fitting, Most, NodeFacts, NodeRooms, Per, PodShape,
    QuotaFacts, Room, Rooms, Values, limit_range_ceilings,
};
pub use sizing_policy::{SizingMethod, SizingPolicy, SizingPolicyError};

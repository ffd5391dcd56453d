//! Container sizes: from usage samples to target and bounds, bit-identical to upstream's Vertical Pod
//! Autoscaler.
//!
//! Pure: no input or output, no clock. Time is an argument. Formulas by file:
//!
//! | formula | file |
//! |---|---|
//! | bucket boundaries, bucket of a value | `buckets.rs` |
//! | adding, subtracting, merging weights; percentile | `histogram.rs` |
//! | exponential decay | `decaying_histogram.rs` |
//! | checkpoint of a histogram | `checkpoint.rs` |
//! | CPU samples, memory peaks per window, OOM bump | `container_state.rs` |
//! | history of like containers | `container_history.rs` |
//! | percentile, margin, confidence, minimum | `estimate.rs` |
//! | rounding and published quantities | `quantity_format.rs` |
//! | from an amount to a published quantity | `published.rs` |
//! | steps of a target | `explain.rs` |
//! | policy of a container | `container_policy.rs` |
//! | minimum and maximum allowed | `container_policy.rs` |
//! | free resources of nodes | `schedulable/node_headroom.rs` |
//! | room of quotas and limit ranges | `schedulable/quota.rs`, `schedulable.rs` |
//! | division among the containers of a pod | `schedulable/division.rs`, `schedulable/container_maxima.rs` |
//! | sizes of one pod's containers, capped by limit ranges and policies | `pod_size.rs`, `pod_size/pod_total.rs`, `pod_size/container_limits.rs` |
//! | limits by mode | `pod_size/limit_mode.rs` |
//! | limits in proportion | `pod_size/proportion.rs` |
//! | sizes that the API server would refuse, totals of a pod | `pod_size/refusals.rs`, `pod_size/whole_pod.rs` |
//! | settings and their defaults | `config.rs` |
//! | Crane: target utilisation | `crane/resource.rs` |
//! | Crane: weighted percentile, OOM protection, list of sizes | `crane/percentile.rs`, `crane/resource.rs` |
//! | Autopilot: moving windows, statistics of load | `autopilot/moving_window.rs`, `autopilot/statistic.rs` |
//! | Autopilot: margin, maximum of the last hour | `autopilot/margin.rs`, `autopilot/moving_window.rs` |
//! | Autopilot: ensemble of models and its costs | `autopilot/ensemble.rs`, `autopilot/model.rs` |
//! | price of failure: costs of a request, histories, choice, runs of Jobs | `price_of_failure.rs`, `price_of_failure/` |
//! | sizing method of a VPA | `sizing_method.rs` |
//! | history of a container for another sizing method, stored too | `method_history.rs`, `packed.rs` |
//! | percentiles and margin of one VPA object | `vpa_method.rs` |
//! | exp2, ln, power with bit-identical results | `float.rs` |

mod amount;
mod autopilot;
mod buckets;
mod checkpoint;
mod config;
mod container_history;
mod container_policy;
mod container_state;
mod crane;
mod decaying_histogram;
mod estimate;
mod explain;
mod float;
mod histogram;
mod instant;
mod method_history;
mod observation;
mod packed;
mod pod_size;
pub mod price_of_failure;
mod published;
pub mod quantity_format;
mod schedulable;
mod sizing_method;
mod vpa_method;

pub use amount::Amounts;
pub use autopilot::{AutopilotMethod, EnsembleConfig, MovingWindowConfig, Statistic};
pub use buckets::{Buckets, BucketsError};
pub use checkpoint::{CheckpointError, HistogramCheckpoint};
pub use config::{Config, ConfigError, MemoryRules, Percentiles, WithoutUsage};
pub use container_history::{ContainerHistory, HistogramConfigs};
pub use container_policy::{
    ContainerPolicy, DEFAULT_CONTAINER, ScalingMode, cap, cap_container, capped_lists, policy_for,
};
pub use container_state::ContainerState;
pub use crane::parse_duration as parse_crane_duration;
pub use crane::{
    CraneConfig, HistogramSettings, Layout, PercentilePredictor, PercentileSettings, Specification,
    Specifications, WeightedHistogram, protected_memory,
};
pub use decaying_histogram::{DecayingHistogram, HalfLife, HistogramConfig};
pub use estimate::{Estimate, container_minimum, estimate};
pub use explain::{MethodTarget, explain};
pub use histogram::{EPSILON, Histogram};
pub use instant::Instant;
pub use method_history::{MethodHistory, MethodHistoryError, StoredMethodHistory};
pub use observation::Observation;
pub use pod_size::{
    CappedRecommendation, ContainerRole, ContainerSize, PodContainer, ProportionalLimits, Refusal,
    ResourcesField, Target, WholeContainer, WholePod, Written, cap_for_pod, limit_for, limits_text,
    pod_sizes, proportional_limits, revert_refused,
};
pub use published::{Publishing, integer_cpu_containers};
pub use schedulable::{
    CandidateNodes, Ceiling, ContainerRequests, DaemonSetInfo, Fit, FitInput, LimitScope,
    LimitedValues, Maximum, NodeHeadroom, NodeHeadrooms, NodeInfo, PodRequests, QuotaUsage,
    limit_range_ceilings,
};
pub use sizing_method::{
    MethodSettings, MethodSettingsError, SIZING_PREFIX, SizingAnnotations, SizingMethod,
};
pub use vpa_method::VpaMethodSettings;

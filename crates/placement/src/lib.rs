//! Node scores from measured load, in the way of Trimaran (kubernetes-sigs/scheduler-plugins).
//!
//! Pure: no input or output, no clock. Scores are 0 to 100; higher is better. Formulas by file:
//!
//! | formula | file |
//! |---|---|
//! | requests and limits of a pod | `pod.rs` |
//! | average and deviation from a node's metrics | `metrics.rs` |
//! | `TargetLoadPacking` | `target_load_packing.rs` |
//! | `LoadVariationRiskBalancing` | `load_variation_risk_balancing.rs` |
//! | `LowRiskOverCommitment` | `low_risk_over_commitment.rs` |
//! | regularised incomplete beta function, beta distribution by moments | `beta.rs` |
//! | `Peaks`: power and its normalisation | `peaks.rs` |
//! | load of a pod before it runs | `prediction.rs` |
//! | load that the metrics do not include yet | `reservations.rs` |
//! | windows of measured load, staleness, coverage | `snapshot.rs` |
//! | bad metrics | `quality.rs` |
//! | scores by requests, for times without metrics | `allocation.rs` |
//! | scores of all nodes for one pod; memory, network and disk | `prioritize.rs` |
//! | policies as text | `policy_text.rs` |
//! | nodes too loaded for a pod | `load_filter.rs` |
//! | hot nodes | `rebalancing.rs` |
//! | pods to move | `rebalancing.rs` |

pub mod beta;
pub mod peaks;

mod allocation;
mod load_filter;
mod load_variation_risk_balancing;
mod low_risk_over_commitment;
mod metrics;
mod pod;
mod policy_text;
mod prediction;
mod prioritize;
mod quality;
mod rebalancing;
mod reservations;
mod snapshot;
mod target_load_packing;

pub use allocation::Allocation;
pub use load_filter::{LoadFilter, Overload};
pub use load_variation_risk_balancing::LoadVariationRiskBalancing;
pub use low_risk_over_commitment::{
    Commitment, LoadRisk, LoadRiskCache, LowRiskOverCommitment, NodeCommitment,
};
pub use metrics::{Metric, MetricOperator, MetricType, Usage, usage};
pub use pod::{Amounts, Container, PodLevel, PodSpec};
pub use policy_text::ParsePolicyError;
pub use prediction::{
    Fallback, LoadSource, PodForecast, PredictedLoad, PredictionConfig, forecast_per_pod, predict,
};
pub use prioritize::{NodeState, PodDemand, Policy, PressureTargets, Prioritizer};
pub use quality::{Defect, Finding, QualityMonitor};
pub use rebalancing::{
    Deviation, HotNodeConfig, Mobility, Move, MoveReason, NodeHeat, RebalancingConfig,
    RebalancingNode, RebalancingPod, plan,
};
pub use reservations::{PodKey, ReservationConfig, Reservations};
pub use snapshot::{
    FallbackReason, FreshLoad, LoadSnapshot, MeasuredLoad, NodeLoad, NodeResource, Window,
    WindowLoad,
};
pub use target_load_packing::TargetLoadPacking;

/// Rounds a score half away from zero. Not a number is 0.
fn rounded(score: f64) -> i64 {
    score.round() as i64
}

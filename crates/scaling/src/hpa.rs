//! Replica count of the Kubernetes `HorizontalPodAutoscaler`, version 1.36.
//!
//! One pass: each metric proposes a count (`per_pod.rs`, `total.rs`), the proposals are combined
//! (`combine.rs`), and the result is limited by stabilisation, rate and bounds (`normalise.rs`).
//! Values and targets are milli-units; ratios are doubles exactly as in the controller, since the
//! tolerance check depends on their last bit. Source: kubernetes/kubernetes
//! `pkg/controller/podautoscaler` (`replica_calculator.go`, `horizontal.go`).

mod behavior;
mod combine;
mod metric;
mod normalise;
mod per_pod;
mod pods;
mod rate;
mod requests;
mod stabilisation;
mod tolerance;
mod total;

pub use behavior::{Behavior, Policy, PolicyKind, Rules, SelectPolicy};
pub use combine::{Combined, combine};
pub use metric::{Metric, PerPodTarget, Reading, TotalTarget, Workload};
pub use normalise::{AbleToScale, Bounds, History, Normalised, ScalingLimited};
pub use per_pod::{Proposal, Value};
pub use pods::{Phase, Pod, PodMetric, PodMetrics, ReadinessDelays, ReadyCondition, ReadyStatus};
pub use requests::{Container, Requests};
pub use tolerance::Tolerance;

const NO_PODS: &str = "no pods returned by selector while calculating replica count";
const NO_POD_METRICS: &str = "did not receive metrics for targeted pods (pods might be unready)";

/// Rounds up to whole replicas and saturates to 32 bits.
fn ceil_replicas(replicas: f64) -> i32 {
    replicas.ceil() as i32
}

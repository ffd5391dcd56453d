//! The replica count of the Kubernetes `HorizontalPodAutoscaler`, version 1.36.
//!
//! One pass: each metric proposes a count (`per_pod.rs`, `total.rs`), the proposals are combined
//! (`combine.rs`), and what comes out is held within stabilisation, rate and bounds
//! (`normalise.rs`). Values and targets are thousandths; ratios are doubles exactly as in the
//! controller, since whether a ratio is within tolerance depends on their last bit. Source:
//! kubernetes/kubernetes `pkg/controller/podautoscaler` (`replica_calculator.go`, `horizontal.go`).

mod behavior;
mod bounds;
mod combine;
mod metric;
mod normalise;
mod per_pod;
mod pods;
mod rate;
mod recommendations;
mod requests;
mod tolerance;
mod total;

pub use behavior::{Behavior, Policy, PolicyKind, Rules, ScaleDown, ScaleUp, SelectPolicy};
pub use bounds::{Forced, forced_replicas};
pub use combine::{Combined, combine};
pub use metric::{Metric, PerPodTarget, Reading, TotalTarget, Workload};
pub use normalise::{AbleToScale, Bounds, History, Normalised, ScalingLimited};
pub use per_pod::{Proposal, Value};
pub use pods::{Phase, Pod, PodMetric, PodMetrics, ReadinessDelays, ReadyCondition, ReadyStatus};
pub use requests::{Container, Requests};
pub use tolerance::Tolerance;

use model::ResourceName;
use thiserror::Error;

/// Why a metric proposes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MetricError {
    /// The metric could not be read.
    #[error("the metric could not be read: {0}")]
    Unavailable(String),
    /// The selector finds no pods.
    #[error("no pods returned by selector while calculating replica count")]
    NoPods,
    /// No pod that counts has a value.
    #[error("did not receive metrics for targeted pods (pods might be unready)")]
    NoPodMetrics,
    /// The pods with values request nothing.
    #[error("no metrics returned matched known pods")]
    NoRequests,
    /// A container requests none of the resource.
    #[error("missing request for {resource} in container {container} of Pod {pod}")]
    MissingRequest {
        /// What is not requested.
        resource: ResourceName,
        /// The container that should.
        container: String,
        /// Its pod.
        pod: String,
    },
    /// A pod has requests of its own, but none of the resource.
    #[error("missing pod-level request for {resource} in Pod {pod}")]
    MissingPodRequest {
        /// What is not requested.
        resource: ResourceName,
        /// The pod that should.
        pod: String,
    },
    /// A pod has no such container.
    #[error("container {container} not found in Pod {pod}")]
    MissingContainer {
        /// The container that the metric names.
        container: String,
        /// The pod without it.
        pod: String,
    },
    /// What was read is not what the metric needs: values of pods for a metric of an object, or the
    /// other way round.
    #[error("what was read does not fit the kind of the metric")]
    WrongReading,
}

/// Rounded up to a whole number of replicas, cut to 32 bits.
fn ceil_replicas(replicas: f64) -> i32 {
    replicas.ceil() as i32
}

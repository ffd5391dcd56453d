//! Replica count of the Kubernetes `HorizontalPodAutoscaler`, version 1.36.
//!
//! One pass: each metric proposes a count (`per_pod.rs`, `total.rs`), the proposals are combined
//! (`combine.rs`), and the result is limited by stabilisation, rate and bounds (`normalise.rs`).
//! Values and targets are milli-units; ratios are doubles exactly as in the controller, since the
//! tolerance check depends on their last bit. Source: kubernetes/kubernetes
//! `pkg/controller/podautoscaler` (`replica_calculator.go`, `horizontal.go`).

mod behavior;
mod combine;
mod early_decision;
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
pub use early_decision::{FixedReplicas, replicas_without_metrics};
pub use metric::{Metric, PerPodTarget, Reading, TotalTarget, Workload};
pub use normalise::{AbleToScale, Bounds, History, Normalised, ScalingLimited};
pub use per_pod::{Proposal, Value};
pub use pods::{Phase, Pod, PodMetric, PodMetrics, ReadinessDelays, ReadyCondition, ReadyStatus};
pub use requests::{Container, Requests};
pub use tolerance::Tolerance;

use model::ResourceName;
use thiserror::Error;

/// Reasons for a missing proposal.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MetricError {
    /// The metric is unavailable.
    #[error("the metric could not be read: {0}")]
    Unavailable(String),
    /// The selector matches no pods.
    #[error("no pods returned by selector while calculating replica count")]
    NoPods,
    /// No counted pod has a value.
    #[error("did not receive metrics for targeted pods (pods might be unready)")]
    NoPodMetrics,
    /// The pods with values have no requests.
    #[error("no metrics returned matched known pods")]
    NoRequests,
    /// A container has no request of the resource.
    #[error("missing request for {resource} in container {container} of Pod {pod}")]
    MissingRequest {
        resource: ResourceName,
        container: String,
        pod: String,
    },
    /// A pod has pod-level requests, but none of the resource.
    #[error("missing pod-level request for {resource} in Pod {pod}")]
    MissingPodRequest { resource: ResourceName, pod: String },
    /// A pod has no such container.
    #[error("container {container} not found in Pod {pod}")]
    MissingContainer {
        container: String,
        /// The pod without it.
        pod: String,
    },
    /// The reading does not match the metric: values of pods for a metric of an object, or vice
    /// versa.
    #[error("the samples do not fit the type of the metric")]
    WrongReading,
}

/// Rounds up to whole replicas and saturates to 32 bits.
fn ceil_replicas(replicas: f64) -> i32 {
    replicas.ceil() as i32
}

//! Replica count of the Kubernetes `HorizontalPodAutoscaler`, version 1.36.
//!
//! One pass: each metric proposes a count (`per_pod.rs`, `metric.rs`), the proposals are combined,
//! and the result is limited by stabilisation, rate and bounds (`normalise.rs`).
//! Values and targets are milli-units; ratios are doubles exactly as in the controller, since the
//! tolerance check depends on their last bit. Source: kubernetes/kubernetes
//! `pkg/controller/podautoscaler` (`replica_calculator.go`, `horizontal.go`).

mod behavior;
mod metric;
mod normalise;
mod per_pod;
mod pods;
mod rate;
mod stabilisation;

pub use behavior::{Behavior, Policy, PolicyKind, Rules, SelectPolicy};
pub use metric::{Metric, PerPodTarget, Reading, TotalTarget, Workload};
pub use normalise::{AbleToScale, Bounds, History, Normalised, ScalingLimited};
pub use per_pod::{Container, Proposal, Requests, Value};
pub use pods::{Phase, Pod, PodMetric, PodMetrics, ReadinessDelays, ReadyCondition, ReadyStatus};

const NO_PODS: &str = "no pods returned by selector while calculating replica count";
const NO_POD_METRICS: &str = "did not receive metrics for targeted pods (pods might be unready)";

/// Tolerance of the ratio of usage to target in each direction, as fractions:
/// `1 - down <= ratio <= 1 + up`. Source: `Tolerances.isWithin`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    pub up: f64,
    pub down: f64,
}

impl Default for Tolerance {
    /// Default of the controller's flag.
    fn default() -> Self {
        Self { up: 0.1, down: 0.1 }
    }
}

impl Tolerance {
    pub fn covers(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Combined {
    /// Number of replicas; `None` if nothing may change in this pass.
    pub replicas: Option<i32>,
    pub metric: Option<usize>,
    /// Index of the first metric that failed.
    pub failed: Option<usize>,
}

/// The largest of the proposals, in the order of the metrics, of a workload with `spec_replicas`,
/// unless a metric failed and the others would scale down. Source: `computeReplicasForMetrics`.
pub fn combine(spec_replicas: i32, proposals: &[Result<Proposal, String>]) -> Combined {
    let mut largest: Option<(usize, i32)> = None;
    for (index, proposal) in proposals.iter().enumerate() {
        if let Ok(proposal) = proposal
            && largest.is_none_or(|(_, replicas)| replicas == 0 || proposal.replicas > replicas)
        {
            largest = Some((index, proposal.replicas));
        }
    }
    let failed = proposals.iter().position(Result::is_err);
    let held = |replicas: i32| failed.is_some() && replicas < spec_replicas;
    match largest {
        Some((index, replicas)) if !held(replicas) => Combined {
            replicas: Some(replicas),
            metric: Some(index),
            failed,
        },
        _ => Combined {
            failed,
            ..Combined::default()
        },
    }
}

/// Rounds up to whole replicas and saturates to 32 bits.
fn ceil_replicas(replicas: f64) -> i32 {
    replicas.ceil() as i32
}

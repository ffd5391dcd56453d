//! Combines the proposals of all metrics: the largest, unless a metric failed and the others would
//! scale down.
//!
//! Source: upstream `horizontal.go` (`computeReplicasForMetrics`).

use super::Proposal;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Combined {
    /// Number of replicas; `None` if nothing may change in this pass.
    pub replicas: Option<i32>,
    pub metric: Option<usize>,
    /// Index of the first metric that failed.
    pub failed: Option<usize>,
}

/// Combines the proposals, in the order of the metrics, of a workload with `spec_replicas`.
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

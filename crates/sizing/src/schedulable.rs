//! Largest recommendation with which the pods of a workload can be scheduled: free resources of
//! nodes, quotas and limit ranges.
//!
//! * `node_headroom.rs`: free resources of nodes after `DaemonSets` and a margin
//! * `quota.rs`: limits of a namespace
//! * `division.rs`: division of a limit among containers
//! * `container_maxima.rs`: maximum of each container from all of these

mod container_maxima;
mod division;
mod node_headroom;
mod quota;

use model::{Cap, Cpu, Memory, Quantity, ResourceList, ResourceName};

pub use container_maxima::{ContainerRequests, Fit, FitInput, Maximum, PodRequests};
pub use node_headroom::{CandidateNodes, DaemonSetInfo, NodeHeadroom, NodeHeadrooms, NodeInfo};
pub use quota::QuotaUsage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedValues {
    Requests,
    /// Limits, which are proportional to requests unless the policy says `RequestsOnly`.
    Limits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitScope {
    Container,
    /// The sum over the pod's containers.
    Pod,
}

/// Limit on one resource of a pod or of each of its containers, with its source. The maximum of a
/// `LimitRange` applies to limits, and requests cannot exceed limits. Source:
/// `plugin/pkg/admission/limitranger` (`maxConstraint`) of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceiling {
    pub resource: ResourceName,
    pub values: LimitedValues,
    pub per: LimitScope,
    /// Maximum in millicores or bytes.
    pub most: i64,
    pub by: Cap,
    /// The name of the node, quota or limit range.
    pub object: String,
}

fn show(resource: &ResourceName, amount: i64) -> Quantity {
    match resource {
        ResourceName::Cpu => Quantity::from_milli(amount),
        _ => Quantity::from_bytes(amount),
    }
}

pub fn limit_range_ceilings(name: &str, per: LimitScope, max: &ResourceList) -> Vec<Ceiling> {
    let most = [
        (ResourceName::Cpu, max.cpu().map(Cpu::millicores)),
        (ResourceName::Memory, max.memory().map(Memory::bytes)),
    ];
    let limited = most
        .into_iter()
        .filter_map(|(resource, most)| Some((resource, most.filter(|most| *most > 0)?)));
    let both = |(resource, most): (ResourceName, i64)| {
        [LimitedValues::Requests, LimitedValues::Limits].map(|values| Ceiling {
            resource: resource.clone(),
            values,
            per,
            most,
            by: Cap::LimitRange,
            object: name.to_owned(),
        })
    };
    limited.flat_map(both).collect()
}

#[cfg(test)]
mod tests {
    use model::Quantity;

    use super::*;

    #[test]
    fn only_what_is_limited_has_a_ceiling() {
        let max = [
            (ResourceName::Cpu, Quantity::from_milli(0)),
            (ResourceName::Memory, Quantity::from_bytes(1 << 30)),
        ];
        let ceilings = limit_range_ceilings("small", LimitScope::Pod, &max.into_iter().collect());
        let found: Vec<_> = ceilings
            .iter()
            .map(|ceiling| (&ceiling.resource, ceiling.values, ceiling.most))
            .collect();
        let memory = &ResourceName::Memory;
        assert_eq!(
            found,
            [
                (memory, LimitedValues::Requests, 1 << 30),
                (memory, LimitedValues::Limits, 1 << 30)
            ]
        );
    }
}

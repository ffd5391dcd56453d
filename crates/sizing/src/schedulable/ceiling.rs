//! Limit on one resource of a pod or of each of its containers, with its source.

use model::{Cap, Quantity, ResourceName};

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

/// Maximum of one resource.
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

/// Formats an amount of a resource.
pub(super) fn show(resource: &ResourceName, amount: i64) -> Quantity {
    match resource {
        ResourceName::Cpu => Quantity::from_milli(amount),
        _ => Quantity::from_bytes(amount),
    }
}

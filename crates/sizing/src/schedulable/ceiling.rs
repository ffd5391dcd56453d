//! A limit on what a pod, or each of its containers, may ask for of one resource, and where it
//! comes from.

use model::{Cap, Quantity, ResourceName};

/// What is added up or compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Requests.
    Requests,
    /// Limits, which follow the requests in proportion unless the autoscaler's owner decided
    /// otherwise.
    Limits,
}

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Each container.
    Container,
    /// The sum over the pod's containers.
    Pod,
}

/// The most of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceiling {
    /// CPU or memory.
    pub resource: ResourceName,
    /// Requests or limits.
    pub values: Values,
    /// Container or pod.
    pub per: Per,
    /// So many millicores or bytes.
    pub most: i64,
    /// Who says so.
    pub by: Cap,
    /// The name of the node, quota or limit range.
    pub object: String,
    /// In words, what it rests on.
    pub because: String,
}

/// An amount of a resource as people read it.
pub(super) fn show(resource: &ResourceName, amount: i64) -> Quantity {
    match resource {
        ResourceName::Cpu => Quantity::from_milli(amount),
        _ => Quantity::from_bytes(amount),
    }
}

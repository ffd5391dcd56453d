//! Requests of one pod of a workload, by container, apart from the recommendation.

use model::{Cpu, Memory, ResourceName};

use crate::estimate::Amounts;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRequests {
    /// Its containers, in no particular order.
    pub containers: Vec<ContainerRequests>,
    /// Requests that are never sized: sidecars among the init containers, and the pod overhead.
    pub fixed_requests: Amounts,
    /// Limits that are never sized.
    pub fixed_limits: Amounts,
}

/// Shape of one container. Unset values are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerRequests {
    pub name: String,
    pub cpu_request: Option<Cpu>,
    pub memory_request: Option<Memory>,
    pub cpu_limit: Option<Cpu>,
    pub memory_limit: Option<Memory>,
    /// Whether its limits are proportional to its requests.
    pub limits_follow: bool,
    pub whole_cores: bool,
}

impl ContainerRequests {
    /// The request in millicores or bytes; 0 if unset.
    pub(super) fn request(&self, resource: &ResourceName) -> i64 {
        match resource {
            ResourceName::Cpu => self.cpu_request.map_or(0, Cpu::millicores),
            _ => self.memory_request.map_or(0, Memory::bytes),
        }
    }

    /// The limit in millicores or bytes; 0 if unset.
    pub(super) fn limit(&self, resource: &ResourceName) -> i64 {
        match resource {
            ResourceName::Cpu => self.cpu_limit.map_or(0, Cpu::millicores),
            _ => self.memory_limit.map_or(0, Memory::bytes),
        }
    }
}

pub(super) fn of(amounts: &Amounts, resource: &ResourceName) -> i64 {
    match resource {
        ResourceName::Cpu => amounts.cpu.millicores(),
        _ => amounts.memory.bytes(),
    }
}

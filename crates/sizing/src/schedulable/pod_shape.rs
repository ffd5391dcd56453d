//! What one pod of a workload asks for, container by container, apart from what is recommended.

use model::{Cpu, Memory, ResourceName};

use crate::estimate::Amounts;

/// One pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodShape {
    /// Its containers, in no particular order.
    pub containers: Vec<ContainerShape>,
    /// Requests of what is never sized: sidecars among the init containers, and the overhead of the
    /// pod.
    pub fixed_requests: Amounts,
    /// Limits of the same.
    pub fixed_limits: Amounts,
}

/// One container. Absent where nothing is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerShape {
    /// Its name.
    pub name: String,
    /// Requested CPU.
    pub cpu_request: Option<Cpu>,
    /// Requested memory.
    pub memory_request: Option<Memory>,
    /// Limit of CPU.
    pub cpu_limit: Option<Cpu>,
    /// Limit of memory.
    pub memory_limit: Option<Memory>,
    /// Whether its limits follow its requests in proportion.
    pub limits_follow: bool,
    /// Whether it gets whole cores.
    pub whole_cores: bool,
}

impl ContainerShape {
    /// The request, in millicores or bytes; 0 where there is none.
    pub(super) fn request(&self, resource: &ResourceName) -> i64 {
        match resource {
            ResourceName::Cpu => self.cpu_request.map_or(0, Cpu::millicores),
            _ => self.memory_request.map_or(0, Memory::bytes),
        }
    }

    /// The limit, in millicores or bytes; 0 where there is none.
    pub(super) fn limit(&self, resource: &ResourceName) -> i64 {
        match resource {
            ResourceName::Cpu => self.cpu_limit.map_or(0, Cpu::millicores),
            _ => self.memory_limit.map_or(0, Memory::bytes),
        }
    }
}

/// One of the two amounts.
pub(super) fn of(amounts: &Amounts, resource: &ResourceName) -> i64 {
    match resource {
        ResourceName::Cpu => amounts.cpu.millicores(),
        _ => amounts.memory.bytes(),
    }
}

//! Requests of one pod of a workload, by container, apart from the recommendation.

use crate::amount::Amounts;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRequests {
    /// Its containers, in no particular order.
    pub containers: Vec<ContainerRequests>,
    /// Requests that are never sized: sidecars among the init containers, and the pod overhead.
    pub fixed_requests: Amounts,
    /// Limits that are never sized.
    pub fixed_limits: Amounts,
}

/// Shape of one container. Unset amounts are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerRequests {
    pub name: String,
    pub requests: Amounts,
    pub limits: Amounts,
    /// Whether its limits are proportional to its requests.
    pub limits_follow: bool,
    pub whole_cores: bool,
}

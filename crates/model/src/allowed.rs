//! What the owner of a workload allows for one of its containers.

use crate::ResourceList;

/// The bounds of a container's resource policy, where there is one. A resource that is not listed,
/// or is zero, has no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed<'a> {
    /// Requests are not below this.
    pub min: Option<&'a ResourceList>,
    /// Requests are not above this.
    pub max: Option<&'a ResourceList>,
    /// Which values follow the recommendation.
    pub values: ControlledValues,
}

/// Which values of a container follow its recommendation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControlledValues {
    /// Requests, and limits in proportion.
    #[default]
    RequestsAndLimits,
    /// Requests only; limits stay, and bound the requests.
    RequestsOnly,
}

//! Bounds and controlled values of a container's resource policy.

use crate::ResourceList;

/// Bounds of a container's resource policy, if any. Missing or zero resources have no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed<'a> {
    pub min: Option<&'a ResourceList>,
    pub max: Option<&'a ResourceList>,
    /// Values that follow the recommendation.
    pub values: ControlledValues,
}

/// Values of a container that follow its recommendation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControlledValues {
    /// Requests, and limits in proportion.
    #[default]
    RequestsAndLimits,
    /// Requests only; limits stay unchanged and cap the requests.
    RequestsOnly,
}

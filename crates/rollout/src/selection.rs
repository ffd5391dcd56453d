//! The pods that want another size, and their order.

pub(crate) mod eviction_requirements;
pub(crate) mod priority;
pub(crate) mod recent_pods;

//! Evictions for the sake of other pods and of nodes.

pub(crate) mod preemption;
pub(crate) mod rebalancing;

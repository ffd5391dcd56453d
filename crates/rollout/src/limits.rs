//! Pauses of updates, and the pods that may be unavailable.

pub(crate) mod disruption_limit;
pub(crate) mod global_pause;
pub(crate) mod group_size;
pub(crate) mod maintenance_window;
pub(crate) mod pod_health;
pub(crate) mod settling;
pub(crate) mod vpa_pause;
pub(crate) mod wave;

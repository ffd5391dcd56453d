//! The size of a pod, and the ways to it.

pub(crate) mod left_out;
pub(crate) mod memory_restore;
pub(crate) mod observed_containers;
pub(crate) mod oom_kill;
pub(crate) mod pod_size;
pub(crate) mod proven_acts;
pub(crate) mod qos;
pub(crate) mod resize_patch;
pub(crate) mod resize_status;
pub(crate) mod rolling_update;
pub(crate) mod size_change;
pub(crate) mod startup_boost;
pub(crate) mod update_method;

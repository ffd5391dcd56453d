//! Decisions of the recommender about `VerticalPodAutoscaler` objects.
//!
//! Pure: no input or output, no clock. Time is an argument.

mod cluster_state;
pub mod resource_policy;

pub use cluster_state::{
    Accepted, AutoscalerId, AutoscalerSpec, Fleet, FleetSize, MAX_CONTAINERS, MAX_IDLE_HISTORIES,
    Phase, PodSpec, SampleError,
};

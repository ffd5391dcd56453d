//! How much of a recommendation can be had: what nodes, quotas and limit ranges leave to one pod of
//! a workload.
//!
//! * `pod_shape.rs`: what one pod asks for apart from what is recommended
//! * `node_room.rs`: what nodes have left beside `DaemonSets` and a margin
//! * `quota.rs`, `limit_range.rs`: what a namespace allows
//! * `share.rs`: how containers share what there is
//! * `fit.rs`: from all this to the most that each container may get

mod arithmetic;
mod ceiling;
mod fit;
mod limit_range;
mod node_room;
mod pod_shape;
mod quota;
mod share;

pub use ceiling::{Ceiling, Per, Values};
pub use fit::{Fit, Fitting, Most};
pub use limit_range::limit_range_ceilings;
pub use node_room::{DaemonFacts, NodeFacts, NodeRooms, Room, Rooms};
pub use pod_shape::{ContainerShape, PodShape};
pub use quota::QuotaFacts;

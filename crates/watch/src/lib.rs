//! Lists and watches of Kubernetes objects, which keep a [`View`](view::View) current.
//!
//! Errors never empty the view of [`Watches`]: it keeps its last state, records the start of
//! staleness and retries for ever. Nothing here writes to the cluster.
//!
//! * `watches`, `reflector`, `table_writer`, `watch_error`: from the API server into the view, and failures
//! * `splitter`, `parse`, `excluded_fields`, `memory_limits`: one object at a time, and its bounds
//! * `scale`: scale subresources of custom kinds
//! * `other_autoscalers`: signs of other autoscalers
//!
//! The memory that a tenant's objects take is bounded: objects above the limits in `memory_limits.rs`
//! (docs/security.md#large-objects) are rejected, counted, and named in the log at most once a minute.

mod excluded_fields;
mod memory_limits;
mod other_autoscalers;
mod parse;
mod reflector;
mod scale;
mod splitter;
mod table_writer;
mod watch_error;
mod watches;

pub use other_autoscalers::{FoundAutoscalers, OtherAutoscalers};
pub use scale::ScaleRequests;
pub use watches::{MissingRights, Watches};

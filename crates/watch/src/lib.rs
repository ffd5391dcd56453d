//! Lists and watches of Kubernetes objects, which keep a [`View`](view::View) current.
//!
//! Errors never empty the view of [`Watches`]: it keeps its last state, records the start of
//! staleness and retries for ever. Nothing here writes to the cluster.
//!
//! * `watches`, `reflector`, `table_writer`, `watch_error`: from the API server into the view, and failures
//! * `splitter`, `parse`, `excluded_fields`, `memory_limits`: one object at a time, and its bounds
//! * `scale`: scale subresources of custom kinds; `missing_rights`: kinds that a program does without
//! * `other_autoscalers`: signs of other autoscalers
//!
//! The memory that a tenant's objects take is bounded. Objects are read one by one, without the
//! fields that no decision reads (`excluded_fields.rs`). The weight of an object estimates the
//! memory of its remaining fields. Objects above these weights are rejected. The metric of rejected
//! objects counts them, and each kind logs a warning at most once a minute:
//!
//! | kind | one object | objects above the usual weight, of one namespace together |
//! |---|---|---|
//! | workload controllers | 512 KiB | 8 MiB, usual is 8 KiB |
//! | `TimeSeriesPrediction` | 4 MiB | 128 MiB, usual is 32 KiB |
//! | pods | 512 KiB | 16 MiB, usual is 32 KiB |
//! | `VerticalPodAutoscaler` | 2 MiB | 16 MiB, usual is 32 KiB |
//! | all others | 512 KiB | 4 MiB, usual is 32 KiB |
//!
//! An object that grows above a limit is treated as deleted. One that is too large by itself is
//! accepted once it becomes smaller. One that exceeds its namespace's allowance is accepted at its
//! next change if there is room then. When other large objects are deleted or shrink, the kind is
//! listed again at the end of a watch, at least four minutes after the last list, usually within
//! ten minutes.
//!
//! The number of objects of usual weight is not limited here; quotas such as `count/cronjobs.batch`
//! limit it in the API server.

mod excluded_fields;
mod memory_limits;
mod missing_rights;
mod other_autoscalers;
mod parse;
mod reflector;
mod scale;
mod splitter;
mod table_writer;
mod watch_error;
mod watches;

pub use missing_rights::MissingRights;
pub use other_autoscalers::{FoundAutoscalers, OtherAutoscalers};
pub use scale::ScaleRequests;
pub use watches::Watches;

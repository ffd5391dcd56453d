//! `VerticalPodAutoscalerCheckpoint` objects: one per container of each VPA object, with upstream's
//! content (`pkg/recommender/checkpoint`).
//!
//! * `content`: the object, its patch and the form that sizing knows.
//! * `method_history`: history of a sizing method other than the VPA's, in an annotation.
//! * `stored_history`: history that was stored before this process measured anything, and so may be added to
//!   what it measures.
//! * `plan`: name of the object for a container, and what has to happen to it.
//! * `schedule`: VPA objects whose checkpoints are due, and their order.
//! * `garbage`: checkpoints that are no longer needed.

pub mod content;
pub mod garbage;
pub mod method_history;
pub mod plan;
pub mod schedule;
pub(crate) mod stored_history;

//! What the recommender remembers across restarts: one `VerticalPodAutoscalerCheckpoint` object per
//! container of each VPA object, read and written as upstream does (`pkg/recommender/checkpoint`).
//!
//! * `form`: between the object's form and the one that sizing knows.
//! * `name`: the object that a container's history is stored in.
//! * `past`: what was stored before this process measured anything itself, and so may be added to
//!   what it measures.
//! * `plan`: which VPA object is looked at first, and what has to happen to each of its
//!   checkpoints.
//! * `garbage`: which checkpoints nobody needs any more.
//! * `keep`: does all that for one term of leadership.

pub(crate) mod form;
pub(crate) mod garbage;
pub(crate) mod keep;
pub(crate) mod name;
pub(crate) mod past;
pub(crate) mod plan;

//! Lists and watches of Kubernetes objects, which keep a [`View`](view::View) current.
//!
//! Errors never empty the view of [`Watches`]: it keeps its last state, says since when it is stale
//! and tries again for ever. Nothing here writes to the cluster.
//!
//! What a tenant can write is bounded. Objects are read one by one, without the fields that no
//! decision reads (`excluded_fields.rs`). The weight of an object is about the memory that the rest of it
//! takes. Objects above these weights are not used; the metric of rejected objects counts them, and
//! a log line, at most once a minute for each kind, says so:
//!
//! | kind | one object | objects above the usual weight, of one namespace together |
//! |---|---|---|
//! | workload controllers | 512 KiB | 8 MiB, usual is 8 KiB |
//! | `TimeSeriesPrediction` | 4 MiB | 128 MiB, usual is 32 KiB |
//! | pods | 512 KiB | 16 MiB, usual is 32 KiB |
//! | all others | 512 KiB | 4 MiB, usual is 32 KiB |
//!
//! An object that was used before and grows above a limit is as good as deleted. One that is too
//! large by itself is used after a change that makes it smaller. One that is refused since its
//! namespace's large objects weigh too much together is used after its next change if there is room
//! then. When others of them go or shrink so that there may be room, the kind is listed again at
//! the end of a watch, at least four minutes after the last list, usually within ten minutes.
//!
//! How many objects of the usual weight there are is up to the API server: quotas such as
//! `count/cronjobs.batch` bound it.

mod allowance;
mod excluded_fields;
mod failure;
mod follow;
mod read;
mod retry;
mod scale;
mod splitter;
mod table_writer;
mod watches;

pub use scale::ScaleRequests;
pub use watches::Watches;

//! Replays of recorded usage through the sizing policies of production and of peers, and of recorded
//! demand through the native HPA.
//!
//! Pure: no input or output, no clock. The result depends on the series and the policy alone. The
//! example `decisions` compares policies, autoscalers and schedulers on a collection of series.
//!
//! | formula | file |
//! |---|---|
//! | series, values of missing slots | `series.rs` |
//! | applied recommendations, OOM kills, early raises | `executor.rs` |
//! | slack, shortage, OOM kills, changes | `score.rs` |
//! | VPA, Crane, Autopilot, KRR, our own policy | `peers.rs` |
//! | demand through the HPA and predicted metrics | `horizontal.rs` |
//! | passes of the native HPA | `hpa.rs` |

mod executor;
pub mod horizontal;
mod hpa;
pub mod peers;
mod policy;
mod score;
mod series;

pub use executor::{Executor, Grid};
pub use hpa::{Bounds, Hpa, proposal};
pub use policy::{MIB, Policy, Resource};
pub use score::{EntityScore, Score};
pub use series::{Series, timestamp};

//! The decisions of the admission webhook: an `AdmissionReview` in, its response out.
//!
//! A pod that is being created gets its recommended size, and an invalid `VerticalPodAutoscaler` is
//! refused. A pod is never refused.
//!
//! Nothing here does I/O: the request body, the state of the cluster and the flags are arguments.
//!
//! * [`Input`]: the arguments of a decision.
//! * [`decide`]: from a review to its response.
//!
//! | formula | file |
//! |---|---|
//! | which VPA sizes a new pod | `select.rs` |
//! | the patch of a pod, CPU startup boost | `pod.rs`, `boost.rs` |
//! | which resources stay unchanged, because the API server would refuse the pod | `pod/sound.rs` |
//! | what a `LimitRange` refuses | `pod/limit_ranger.rs` |
//! | the totals of a pod's containers | `pod/aggregate.rs` |
//! | which VPA objects are refused, and the texts | `validate.rs`, `fields.rs` |

mod boost;
pub mod decide;
mod fields;
mod input;
mod patch;
mod pod;
mod review;
mod select;
mod validate;

pub use input::{AdmissionConfig, FeedLookup, Gates, Input};
pub use pod::BoostError;

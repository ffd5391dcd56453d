//! The decisions of the admission webhook: an `AdmissionReview` in, its response out.
//!
//! A pod that is being created gets its recommended size, and an invalid `VerticalPodAutoscaler` is
//! refused. A pod is never refused.
//!
//! Nothing here does I/O: the request body, the view of the cluster and the flags are arguments of
//! [`review()`].
//!
//! | formula | file |
//! |---|---|
//! | the VPA of a new pod, labels of the groups of its node | `vpa_selection.rs` |
//! | the patch of a pod, CPU startup boost | `pod.rs`, `startup_boost.rs` |
//! | validation of VPA objects, and the texts | `validate.rs`, `field_error.rs` |

mod decide;
mod field_error;
mod input;
mod patch;
mod pod;
mod review;
mod startup_boost;
mod validate;
mod vpa_selection;

pub use decide::{
    AdmissionResource, AdmissionStatus, Decision, PatchFailure, admit_unreviewed, review,
};
pub use input::{AdmissionConfig, FeedLookup, Gates, Input};
pub use startup_boost::BoostError;
pub use vpa_selection::Awaited;

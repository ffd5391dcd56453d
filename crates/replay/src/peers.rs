//! Policies to compare with: the code of production for VPA, Crane and Autopilot; KRR's simple
//! strategy; the provisioned request; the largest usage of the next hour.

mod bounds;
mod krr;
mod sizing_policy;
mod vpa;

pub use bounds::{Oracle, Provisioned};
pub use krr::Krr;
pub use sizing_policy::AnnotatedPolicy;
pub use vpa::Vpa;

//! Compared policies: the code of production for VPA, Crane, Autopilot and our own; KRR's simple
//! strategy; the provisioned request.

mod krr;
mod sizing_policy;
mod vpa;

pub use krr::Krr;
pub use sizing_policy::AnnotatedPolicy;
pub use vpa::Vpa;

use jiff::Timestamp;

use crate::policy::Policy;

/// Keeps the provisioned request.
#[derive(Clone, Copy, Debug)]
pub struct Provisioned;

impl Policy for Provisioned {
    fn observe(&mut self, _pod: usize, _at: Timestamp, _usage: f64) {}

    fn is_raised_by_oom(&self) -> bool {
        false
    }

    fn recommend(&mut self, _now: Timestamp, _request: f64) -> Option<f64> {
        None
    }
}

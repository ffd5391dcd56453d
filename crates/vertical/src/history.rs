//! Usage from before the start of the recommender.
//!
//! * `ledger`: which history is missing.
//! * `rebuild`: what the recommender would know had it run all the time.
//! * `round`: order in which namespaces are fetched.
//! * `label_names`: Kubernetes' names of the labels in a store.

mod label_names;
mod ledger;
mod rebuild;
mod round;

pub use ledger::Gap;
pub(crate) use ledger::Ledger;
pub use rebuild::{Outcome, PodLabels, Rebuild, Resource, Scene};
pub use round::{Failures, Round};

//! Rule files of prometheus-adapter ([`promql::rules`]), and the cluster's resources that their
//! labels name.

mod discovery;

pub use discovery::read_api_resources;
pub use promql::rules::*;

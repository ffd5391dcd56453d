//! Reads the scale subresources of custom kinds.

mod controller;
mod get;
mod read_queue;
mod request;

pub(crate) use controller::run;
pub use request::ScaleRequests;

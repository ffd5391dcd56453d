//! Reads the scale subresources of custom kinds.

mod controller;
mod read;
mod request;
mod schedule;

pub(crate) use controller::run;
pub use request::ScaleRequests;

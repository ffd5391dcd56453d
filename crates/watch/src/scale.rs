//! Reads the scale subresources of objects of kinds that are not well known.

mod controller;
mod read;
mod request;
mod schedule;

pub(crate) use controller::run;
pub use request::ScaleRequests;

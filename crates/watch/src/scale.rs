//! Reads the scale subresources of objects of kinds that are not well known.

mod keep;
mod question;
mod read;
mod schedule;

pub(crate) use keep::keep;
pub use question::ScaleRequests;
